#include "weights/parallel_read.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "weights/convert.h"

namespace causeway::weights {
namespace {

constexpr Nanos kProgressInterval = millis(100);
constexpr Bytes kHugePage = mib(2);
// One copies into place while another's read is under way.
constexpr int kReadersPerCpu = 2;

// Memory that O_DIRECT can read into: a run, and the rest of the pages that it begins and ends in.
class DirectBuffer {
 public:
  // Null span when there is no memory.
  std::span<std::byte> get() {
    constexpr Bytes kSize = round_up(kRunBytesMax + kDirectAlignment * 2, kHugePage);
    if (!memory_) {
      memory_.reset(
          static_cast<std::byte*>(std::aligned_alloc(to_size(kHugePage), to_size(kSize))));
      // Fewer pages for the kernel to pin at each read.
      if (memory_) (void)::madvise(memory_.get(), to_size(kSize), MADV_HUGEPAGE);
    }
    if (!memory_) return {};
    return {memory_.get(), to_size(kSize)};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

// What the readers of one load share.
class Load {
 public:
  Load(const ReadPlan& reads, const Checkpoint& checkpoint, std::span<std::byte> region,
       const LoadOptions& options, const Clock& clock)
      : reads_(reads),
        checkpoint_(checkpoint),
        region_(region),
        options_(options),
        clock_(clock),
        began_(clock.now()),
        reported_(began_) {}

  // One reader: takes runs until none is left or the load has failed.
  void work() {
    DirectBuffer buffer;
    while (!stopped_.load(std::memory_order_relaxed)) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= reads_.runs.size()) return;
      if (options_.cancelled && options_.cancelled()) {
        return fail({ErrorCode::kCancelled, "the load was cancelled"});
      }
      const ReadRun& run = reads_.runs[index];
      if (const Status status = read_run(run, buffer); !status.ok()) return fail(status.error());
      done_.fetch_add(run.bytes.count, std::memory_order_relaxed);
      report(false);
    }
  }

  Status finish() {
    if (error_) return *error_;
    report(true);
    return {};
  }

 private:
  std::byte* place(const ReadRun::Segment& segment) {
    return region_.data() + segment.target.count;
  }

  Status read_run(const ReadRun& run, DirectBuffer& buffer) {
    const File& file = checkpoint_.files()[run.file].file;
    if (run.from != reads_.dtype) return read_converted(run, file, buffer);
    if (!file.looks_cached(run.offset, run.bytes)) {
      CAUSEWAY_ASSIGN(const auto bytes, read_direct(run, file, buffer));
      if (!bytes.empty()) return scatter(run, bytes);
    }
    std::vector<iovec> places;
    for (const auto& segment : run.segments) {
      places.push_back({place(segment), to_size(segment.source_bytes)});
    }
    return file.read(run.offset, places);
  }

  Status read_converted(const ReadRun& run, const File& file, DirectBuffer& buffer) {
    if (!file.looks_cached(run.offset, run.bytes)) {
      CAUSEWAY_ASSIGN(const auto bytes, read_direct(run, file, buffer));
      if (!bytes.empty()) return scatter(run, bytes);
    }
    if (buffer.get().empty()) return exhausted("no memory for a read buffer");
    const auto bytes = buffer.get().first(to_size(run.bytes));
    CAUSEWAY_TRY(file.read(run.offset, bytes));
    return scatter(run, bytes);
  }

  // Reads a run past the page cache; an empty span when that is impossible.
  Result<std::span<const std::byte>> read_direct(const ReadRun& run, const File& file,
                                                 DirectBuffer& buffer) {
    const std::span<std::byte> memory = buffer.get();
    if (memory.empty()) return std::span<const std::byte>();
    const Bytes end = run.offset + run.bytes;
    const Bytes aligned = run.offset - run.offset % kDirectAlignment;
    const Bytes size = round_up(end - aligned, kDirectAlignment);
    const auto got = file.read_direct(aligned, memory.first(to_size(size)));
    if (!got.ok() && got.error().code == ErrorCode::kUnsupported) {
      return std::span<const std::byte>();
    }
    if (!got.ok()) return got.error();
    // A file that became shorter: the buffered read that follows says so.
    if (*got < end - aligned) return std::span<const std::byte>();
    return std::span<const std::byte>(memory).subspan(to_size(run.offset - aligned),
                                                      to_size(run.bytes));
  }

  // Puts a run's bytes into their places.
  Status scatter(const ReadRun& run, std::span<const std::byte> bytes) {
    for (const auto& segment : run.segments) {
      const std::size_t size = to_size(segment.source_bytes);
      convert_elements(bytes.first(size), run.from, place(segment), reads_.dtype);
      bytes = bytes.subspan(size);
    }
    return {};
  }

  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    stopped_.store(true, std::memory_order_relaxed);
  }

  // Tells the caller how far the load is: every kProgressInterval, and once at its end.
  void report(bool at_end) {
    if (!options_.progress) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    const Nanos now = clock_.now();
    if (!at_end && now - reported_ < kProgressInterval) return;
    reported_ = now;
    LoadProgress progress{Bytes(done_.load(std::memory_order_relaxed)), reads_.bytes, now - began_,
                          0, Nanos(0)};
    if (!at_end && progress.done == progress.total) return;  // the end is told once
    if (progress.elapsed > Nanos(0) && progress.done > Bytes(0)) {
      progress.bytes_per_second =
          static_cast<double>(progress.done.count) / to_seconds(progress.elapsed);
      progress.remaining = nanos_from_seconds(
          static_cast<double>((progress.total - progress.done).count) / progress.bytes_per_second);
    }
    options_.progress(progress);
  }

  const ReadPlan& reads_;
  const Checkpoint& checkpoint_;
  const std::span<std::byte> region_;
  const LoadOptions& options_;
  const Clock& clock_;
  const Nanos began_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // guards what follows, and serialises the callback
  Nanos reported_;
  std::optional<Error> error_;
};

}  // namespace

Status read_into(const ReadPlan& reads, const Checkpoint& checkpoint, std::span<std::byte> region,
                 const LoadOptions& options, const Clock& clock) {
  const int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int wanted =
      std::clamp(options.threads > 0 ? options.threads : kReadersPerCpu * cpus, 1, kReadThreadsMax);
  Load load(reads, checkpoint, region, options, clock);
  std::vector<std::thread> readers;
  try {
    for (int i = 1; i < wanted && static_cast<std::size_t>(i) < reads.runs.size(); ++i) {
      readers.emplace_back([&load] { load.work(); });
    }
  } catch (const std::system_error&) {
    // Fewer readers only take longer.
  }
  load.work();
  for (std::thread& reader : readers) reader.join();
  return load.finish();
}

}  // namespace causeway::weights
