#include "catalogue/model_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "device/host_memory.h"
#include "model/random_model.h"
#include "weights/file.h"

namespace causeway::bench {
namespace {

constexpr Bytes kPiece = mib(8);

struct Piece {
  std::size_t file = 0;
  Bytes at;  // in the file
  Bytes bytes;
  Bytes target;  // in memory, a whole piece for each
};

std::vector<Piece> pieces_of(const std::vector<weights::File>& files) {
  std::vector<Piece> pieces;
  Bytes target;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (Bytes at; at < files[f].bytes(); at += kPiece) {
      const Bytes bytes = std::min(kPiece, files[f].bytes() - at);
      pieces.push_back({f, at, bytes, target});
      target += kPiece;
    }
  }
  return pieces;
}

// The first error, if any.
Status in_parallel(std::size_t count, const std::function<Status(std::size_t)>& one) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // guards `outcome`
  Status outcome;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      const Status done = one(i);
      if (done.ok()) continue;
      const std::lock_guard lock(mutex);
      if (outcome.ok()) outcome = done;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

Result<std::vector<weights::File>> open_all(const std::vector<std::filesystem::path>& paths) {
  std::vector<weights::File> files;
  for (const std::filesystem::path& path : paths) {
    CAUSEWAY_ASSIGN(weights::File file, weights::File::open(path));
    files.push_back(std::move(file));
  }
  return files;
}

// Calls `what` with a descriptor of each file.
Status for_each_file(const std::vector<std::filesystem::path>& paths,
                     const std::function<int(int)>& what) {
  for (const std::filesystem::path& path : paths) {
    const weights::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return io_error(path.string(), errno);
    if (const int failed = what(file.get()); failed != 0) return io_error(path.string(), failed);
  }
  return {};
}

}  // namespace

Result<BenchFolder> BenchFolder::open(const std::filesystem::path& folder) {
  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
    if (error) return io_error(folder.string(), error.value());
    return BenchFolder(folder, false);
  }
  std::string name = (std::filesystem::temp_directory_path(error) / "causeway-XXXXXX").string();
  if (error) return io_error("the folder for temporary files", error.value());
  if (::mkdtemp(name.data()) == nullptr) return io_error(name, errno);
  return BenchFolder(name, true);
}

BenchFolder::BenchFolder(BenchFolder&& other) noexcept
    : path_(std::move(other.path_)), ours_(std::exchange(other.ours_, false)) {}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  if (ours_) std::filesystem::remove_all(path_, ignored);
}

Result<std::filesystem::path> write_model(const std::filesystem::path& folder,
                                          const std::string& name,
                                          const model::ModelConfig& config) {
  const std::filesystem::path path = folder / name;
  // config.json is written last.
  if (!std::filesystem::exists(path / "config.json")) {
    model::RandomModelOptions options;
    options.config = config;
    CAUSEWAY_TRY(model::make_random_model(options, path));
    // So that the writing does not go on while something is measured.
    CAUSEWAY_ASSIGN(const WeightFiles files, WeightFiles::open(path));
    CAUSEWAY_TRY(files.flush());
  }
  CAUSEWAY_ASSIGN(const model::ModelConfig there, model::load_config(path));
  if (there.layers != config.layers || there.hidden != config.hidden ||
      there.vocab != config.vocab || there.dtype != config.dtype) {
    return invalid_argument(path.string() + " is of another model: remove it");
  }
  return path;
}

Result<WeightFiles> WeightFiles::open(const std::filesystem::path& model) {
  WeightFiles files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(model, error)) {
    if (entry.path().extension() != ".safetensors") continue;
    files.files_.push_back(entry.path());
    files.bytes_ += Bytes(static_cast<std::int64_t>(entry.file_size(error)));
  }
  if (error) return io_error(model.string(), error.value());
  if (files.files_.empty()) return not_found(model.string() + ": has no safetensors files");
  std::sort(files.files_.begin(), files.files_.end());
  return files;
}

Status WeightFiles::flush() const {
  return for_each_file(files_, [](int file) { return ::fsync(file) == 0 ? 0 : errno; });
}

Status WeightFiles::drop_from_page_cache() const {
  return for_each_file(files_,
                       [](int file) { return ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); });
}

Status WeightFiles::bring_into_page_cache() const {
  CAUSEWAY_ASSIGN(const auto files, open_all(files_));
  const std::vector<Piece> pieces = pieces_of(files);
  return in_parallel(pieces.size(), [&](std::size_t i) {
    std::vector<std::byte> buffer(to_size(pieces[i].bytes));
    return files[pieces[i].file].read(pieces[i].at, buffer);
  });
}

Result<Nanos> WeightFiles::read_plainly(bool direct, const Clock& clock) const {
  CAUSEWAY_ASSIGN(const auto files, open_all(files_));
  const std::vector<Piece> pieces = pieces_of(files);
  const Bytes whole = pieces.back().target + kPiece;
  device::HostMemory memory;
  const Nanos begin = clock.now();
  CAUSEWAY_ASSIGN(const RegionId region, memory.allocate({.name = "plain", .bytes = whole}));
  CAUSEWAY_TRY(in_parallel(pieces.size(), [&](std::size_t i) {
    const Piece& piece = pieces[i];
    const auto target = memory.resolve({region, piece.target}, kPiece);
    if (direct) {
      const auto got = files[piece.file].read_direct(piece.at, target);
      if (got.ok() && *got >= piece.bytes) return Status();
    }
    return files[piece.file].read(piece.at, target.first(to_size(piece.bytes)));
  }));
  return clock.now() - begin;
}

}  // namespace causeway::bench
