#include "weights/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace causeway::weights {
namespace {

Error ends_early(const std::filesystem::path& path, Bytes at) {
  return corrupt(path.string() + ": ends at byte " + std::to_string(at.count) +
                 ", before the data its header announces; fetch it again");
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

AddressRange::AddressRange(AddressRange&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AddressRange::~AddressRange() {
  if (begin_ != nullptr) ::munmap(begin_, to_size(bytes_));
}

Result<File> File::open(const std::filesystem::path& path) {
  File file;
  file.path_ = path;
  // Without O_NONBLOCK a named pipe in a model directory would hang the open.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  file.buffered_ = FileDescriptor(::open(path.c_str(), kFlags));
  if (!file.buffered_.valid()) {
    const int cause = errno;
    if (cause == ENOENT) return not_found(path.string() + ": no such file");
    return io_error("cannot open " + path.string(), cause);
  }
  struct stat status {};
  if (::fstat(file.buffered_.get(), &status) != 0) return io_error(path.string(), errno);
  if (!S_ISREG(status.st_mode)) return corrupt(path.string() + ": not a regular file");
  file.bytes_ = Bytes(status.st_size);
  file.direct_ = FileDescriptor(::open(path.c_str(), kFlags | O_DIRECT));
  if (file.bytes_ > Bytes(0)) {
    void* begin =
        ::mmap(nullptr, to_size(file.bytes_), PROT_NONE, MAP_SHARED, file.buffered_.get(), 0);
    if (begin != MAP_FAILED) {
      file.mapping_ = AddressRange(static_cast<std::byte*>(begin), file.bytes_);
    }
  }
  return file;
}

Status File::read(Bytes offset, std::span<std::byte> target) const {
  while (!target.empty()) {
    const ssize_t got = ::pread(buffered_.get(), target.data(), target.size(), offset.count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("cannot read " + path_.string(), errno);
    if (got == 0) return ends_early(path_, offset);
    target = target.subspan(static_cast<std::size_t>(got));
    offset += Bytes(got);
  }
  return {};
}

Status File::read(Bytes offset, std::span<iovec> targets) const {
  while (!targets.empty()) {
    const ssize_t got =
        ::preadv(buffered_.get(), targets.data(), static_cast<int>(targets.size()), offset.count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("cannot read " + path_.string(), errno);
    if (got == 0) return ends_early(path_, offset);
    offset += Bytes(got);
    std::size_t done = static_cast<std::size_t>(got);
    while (!targets.empty() && done >= targets.front().iov_len) {
      done -= targets.front().iov_len;
      targets = targets.subspan(1);
    }
    if (targets.empty()) break;
    targets.front().iov_base = static_cast<std::byte*>(targets.front().iov_base) + done;
    targets.front().iov_len -= done;
  }
  return {};
}

bool File::looks_cached(Bytes offset, Bytes bytes) const {
  constexpr std::int64_t kSamples = 8;
  const Bytes end = std::min(offset + bytes, mapping_.bytes());
  const Bytes page(::sysconf(_SC_PAGESIZE));
  for (std::int64_t i = 0; i < kSamples && offset < end; ++i) {
    const Bytes at = offset + (end - offset - Bytes(1)) / (kSamples - 1) * i;
    unsigned char resident = 1;
    if (::mincore(mapping_.begin() + (at - at % page).count, 1, &resident) == 0 &&
        (resident & 1) == 0) {
      return false;
    }
  }
  return true;
}

Result<Bytes> File::read_direct(Bytes offset, std::span<std::byte> target) const {
  if (!direct_.valid()) return unsupported(path_.string() + ": no direct reads");
  Bytes done;
  while (to_size(done) < target.size()) {
    const ssize_t got = ::pread(direct_.get(), target.data() + done.count,
                                target.size() - to_size(done), (offset + done).count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL) return unsupported(path_.string() + ": no direct reads");
    if (got < 0) return io_error("cannot read " + path_.string(), errno);
    done += Bytes(got);
    if (got == 0 || done % kDirectAlignment != Bytes(0)) break;  // the end of the file
  }
  return done;
}

}  // namespace causeway::weights
