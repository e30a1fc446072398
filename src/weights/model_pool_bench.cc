// How near a load comes to what the machine gives. In one run, taking turns: plain parallel reads
// of the same files in 8 MiB pieces into memory that was allocated and touched in the same way, and
// the pool's load. "load" counts allocation and first touch on both sides, "read" leaves them out
// on both.
//
//   warm: files in the page cache; the plain reader uses pread
//   cold: files not in the page cache; the plain reader uses O_DIRECT pread, the faster way
//
// The folder for temporary files decides the disk (TMPDIR). Numbers are medians of kRounds; ratio
// is plain time / pool time.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/quantile.h"
#include "base/testing/temporary_directory.h"
#include "weights/checkpoint.h"
#include "weights/model_pool.h"
#include "weights/parallel_read.h"
#include "weights/read_plan.h"
#include "weights/testing/checkpoints.h"

namespace causeway::weights {
namespace {

constexpr int kRounds = 7;
constexpr std::int64_t kLayers = 12, kHidden = 2048, kIntermediate = 8192, kKv = 512;
constexpr Bytes kPiece = mib(8);

// A Llama-3.2-1B in small: 1.4 GiB of bf16 in one file of adjacent tensors, as published files are.
struct Files {
  TemporaryDirectory directory;
  LoadPlan plan{DType::kBF16, {}};

  Files() {
    std::vector<TensorSpec> tensors;
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols) {
      tensors.push_back({name, DType::kBF16, {rows, cols}});
      return SourceTensor{name, rows, cols};
    };
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string l = "layers." + std::to_string(i);
      plan.groups.push_back(
          {l,
           {{"down", {add(l + ".down", kHidden, kIntermediate)}},
            {"gate_up",
             {add(l + ".gate", kIntermediate, kHidden), add(l + ".up", kIntermediate, kHidden)}},
            {"norm", {add(l + ".norm", 1, kHidden)}},
            {"qkv",
             {add(l + ".q", kHidden, kHidden), add(l + ".k", kKv, kHidden),
              add(l + ".v", kKv, kHidden)}},
            {"o", {add(l + ".o", kHidden, kHidden)}}}});
    }
    testing::write_tensors(file(), tensors, 1);
    const int fd = ::open(file().c_str(), O_RDONLY);
    CAUSEWAY_CHECK(fd >= 0 && ::fsync(fd) == 0);
    ::close(fd);
  }
  std::filesystem::path file() const { return directory.path() / "model.safetensors"; }

  void drop_from_page_cache() const {
    const int fd = ::open(file().c_str(), O_RDONLY);
    CAUSEWAY_CHECK(fd >= 0 && ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    ::close(fd);
  }
};

const Files& files() {
  static const Files instance;
  return instance;
}

// Reads the whole file by as many threads as there are CPUs, piece by piece in order.
void plain_read(std::span<std::byte> target, int extra_flags) {
  const int fd = ::open(files().file().c_str(), O_RDONLY | extra_flags);
  CAUSEWAY_CHECK(fd >= 0, "open");
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    while (true) {
      const std::size_t offset = next.fetch_add(to_size(kPiece));
      if (offset >= target.size()) return;
      const std::size_t size = std::min(to_size(kPiece), target.size() - offset);
      const ssize_t got = ::pread(fd, target.data() + offset, size, static_cast<off_t>(offset));
      CAUSEWAY_CHECK(got > 0, "pread");
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  ::close(fd);
}

// Takes turns for kRounds after one round of warming up, and reports both.
void compare(benchmark::State& state, const std::function<void()>& before,
             const std::function<double()>& plain, const std::function<double()>& pool) {
  std::vector<double> plain_times, pool_times;
  for (auto _ : state) {
    for (int round = 0; round <= kRounds; ++round) {
      before();
      const double a = plain();
      before();
      const double b = pool();
      if (round == 0) continue;
      plain_times.push_back(a);
      pool_times.push_back(b);
    }
  }
  const double gigabytes = static_cast<double>(std::filesystem::file_size(files().file())) * 1e-9;
  const double a = median(plain_times), b = median(pool_times);
  state.counters["plain_GB/s"] = gigabytes / a;
  state.counters["pool_GB/s"] = gigabytes / b;
  state.counters["ratio"] = a / b;
}

double seconds_of(const std::function<void()>& what) {
  const RealClock clock;
  const Nanos begin = clock.now();
  what();
  return to_seconds(clock.now() - begin);
}

Bytes file_bytes() {
  return round_up(Bytes(static_cast<std::int64_t>(std::filesystem::file_size(files().file()))),
                  kib(4));
}

void plain_load(device::HostMemory& memory, int flags) {
  const auto region = memory.allocate({.name = "plain", .bytes = file_bytes()});
  CAUSEWAY_CHECK(region.ok());
  plain_read(memory.resolve({*region, Bytes(0)}, file_bytes()), flags);
  CAUSEWAY_CHECK(memory.release(*region).ok());
}

void pool_load(device::HostMemory& memory) {
  const RealClock clock;
  ModelPool pool(memory, clock, gib(64));
  const WeightLayout layout = lay_out(files().plan).value();
  const Status status = pool.load(ModelId(1), {files().directory.path(), files().plan, layout}, {});
  CAUSEWAY_CHECK(status.ok(), status.ok() ? "" : status.error().message);
  CAUSEWAY_CHECK(pool.unload(ModelId(1)).ok());
}

bool has_direct_io() {
  const int fd = ::open(files().file().c_str(), O_RDONLY | O_DIRECT);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

void load(benchmark::State& state, bool cold) {
  const int flags = cold ? O_DIRECT : 0;
  if (cold && !has_direct_io()) return state.SkipWithError("no direct I/O on this file system");
  device::HostMemory memory;
  const auto before = [&] {
    if (cold) files().drop_from_page_cache();
  };
  compare(
      state, before, [&] { return seconds_of([&] { plain_load(memory, flags); }); },
      [&] { return seconds_of([&] { pool_load(memory); }); });
}

void read(benchmark::State& state, bool cold) {
  const int flags = cold ? O_DIRECT : 0;
  if (cold && !has_direct_io()) return state.SkipWithError("no direct I/O on this file system");
  device::HostMemory memory;
  const RealClock clock;
  const auto checkpoint = Checkpoint::open(files().directory.path());
  CAUSEWAY_CHECK(checkpoint.ok());
  const auto layout = lay_out(files().plan).value();
  const auto reads = plan_reads(files().plan, layout, *checkpoint);
  CAUSEWAY_CHECK(reads.ok());
  const auto region = memory.allocate({.name = "both", .bytes = file_bytes() + mib(1)});
  CAUSEWAY_CHECK(region.ok());
  const auto whole = memory.resolve({*region, Bytes(0)}, file_bytes() + mib(1));
  const auto before = [&] {
    if (cold) files().drop_from_page_cache();
  };
  compare(
      state, before,
      [&] { return seconds_of([&] { plain_read(whole.first(to_size(file_bytes())), flags); }); },
      [&] {
        return seconds_of([&] {
          CAUSEWAY_CHECK(read_into(*reads, *checkpoint, whole, LoadOptions{}, clock).ok());
        });
      });
}

BENCHMARK_CAPTURE(read, warm, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, warm, false)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, cold, true)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, cold, true)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace causeway::weights
