#include "weights/file.h"

#include <fcntl.h>
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

Result<Bytes> File::read_cached(Bytes offset, std::span<const iovec> targets) const {
  while (true) {
    const ssize_t got = ::preadv2(buffered_.get(), targets.data(), static_cast<int>(targets.size()),
                                  offset.count, RWF_NOWAIT);
    if (got >= 0) return Bytes(got);
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Bytes(0);
    if (errno == EOPNOTSUPP || errno == EINVAL) {
      return unsupported(path_.string() + ": no reads from the page cache only");
    }
    return io_error("cannot read " + path_.string(), errno);
  }
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
