#include "device/host/host_arena_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "device/memory_headroom.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace causeway::device {
namespace {

class HostArenaMemory final : public ArenaMemory {
 public:
  HostArenaMemory(std::byte* base, Bytes bytes) : base_(base), bytes_(bytes) {}
  ~HostArenaMemory() override {
    if (base_ != nullptr) ::munmap(base_, to_size(bytes_));
  }

  std::byte* base() const override { return base_; }

  // The kernel's new pages are zeroed in any case.
  Status map(Bytes offset, Bytes bytes, Fill /*fill*/) override {
    CAUSEWAY_ASSIGN(const MemoryHeadroom headroom, read_memory_headroom());
    if (bytes > headroom.bytes) {
      return exhausted("a device arena needs " + std::to_string(bytes.count >> 20) +
                       " MiB more, but " + headroom.limited_by + " leaves " +
                       std::to_string(headroom.bytes.count >> 20) + " MiB");
    }
    std::byte* begin = base_ + offset.count;
    if (::mprotect(begin, to_size(bytes), PROT_READ | PROT_WRITE) != 0) {
      return io_error("mapping extents of a device arena", errno);
    }
    ::madvise(begin, to_size(bytes), MADV_HUGEPAGE);
    // Before Linux 5.14 pages come as they are touched, which only costs time then.
    if (::madvise(begin, to_size(bytes), MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
      const int cause = errno;
      unmap(offset, bytes);
      Error error = io_error("populating extents of a device arena", cause);
      error.code = ErrorCode::kResourceExhausted;
      return error;
    }
    return {};
  }

  void unmap(Bytes offset, Bytes bytes) override {
    std::byte* begin = base_ + offset.count;
    ::madvise(begin, to_size(bytes), MADV_DONTNEED);
    ::mprotect(begin, to_size(bytes), PROT_NONE);
  }

  void trim() override {}

 private:
  std::byte* base_;
  Bytes bytes_;
};

}  // namespace

Result<std::unique_ptr<ArenaMemory>> reserve_host_arena(Bytes bytes) {
  if (bytes.count < 0 || bytes.count > (std::int64_t{1} << 46)) {
    return invalid_argument("a device arena cannot have " + std::to_string(bytes.count) + " bytes");
  }
  if (bytes.count == 0) {
    return std::unique_ptr<ArenaMemory>(std::make_unique<HostArenaMemory>(nullptr, bytes));
  }
  void* base = ::mmap(nullptr, to_size(bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    Error error = io_error(
        "reserving a device arena of " + std::to_string(bytes.count >> 20) + " MiB", errno);
    error.code = ErrorCode::kResourceExhausted;
    return error;
  }
  return std::unique_ptr<ArenaMemory>(
      std::make_unique<HostArenaMemory>(static_cast<std::byte*>(base), bytes));
}

}  // namespace causeway::device
