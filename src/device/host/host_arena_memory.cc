#include "device/host/host_arena_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <set>
#include <string>

#include "device/memory_headroom.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace causeway::device {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

class HostArenaMemory final : public ArenaMemory {
 public:
  HostArenaMemory(std::byte* base, Bytes bytes, Bytes extent)
      : base_(base), bytes_(bytes), extent_(extent) {}
  ~HostArenaMemory() override {
    if (base_ != nullptr) ::munmap(base_, to_size(bytes_));
  }

  std::byte* base() const override { return base_; }

  // The kernel's new pages are always zeroed.
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
    taken_ += bytes.count;
    ::madvise(begin, to_size(bytes), MADV_HUGEPAGE);
    // Before Linux 5.14 pages appear when they are touched, which costs time then.
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
    taken_ -= bytes.count - forget_aliases(offset, bytes).count;
    if (shared_.empty()) {
      ::madvise(begin, to_size(bytes), MADV_DONTNEED);
      ::mprotect(begin, to_size(bytes), PROT_NONE);
      return;
    }
    // Replaces shared pages, which would otherwise stay in memory, by addresses without access.
    ::mmap(begin, to_size(bytes), PROT_NONE, kReserved | MAP_FIXED, -1, 0);
    shared_.erase(shared_.lower_bound(offset), shared_.lower_bound(offset + bytes));
  }

  // Private pages cannot show at two addresses, so the source is made shared first.
  Status alias(Bytes offset, Bytes bytes, Bytes source) override {
    for (Bytes at; at < bytes; at += extent_) {
      if (Status aliased = alias_extent(offset + at, source + at); !aliased.ok()) {
        unmap(offset, at + extent_);
        return aliased;
      }
    }
    return {};
  }

  void trim() override {}
  Bytes taken() const override { return Bytes(taken_.load()); }

 private:
  // How much of the range had such pages.
  Bytes forget_aliases(Bytes offset, Bytes bytes) {
    const auto begin = aliases_.lower_bound(offset), end = aliases_.lower_bound(offset + bytes);
    const Bytes were = extent_ * std::distance(begin, end);
    aliases_.erase(begin, end);
    return were;
  }
  Status alias_extent(Bytes offset, Bytes source) {
    aliases_.insert(offset);
    std::byte* const from = base_ + source.count;
    const std::size_t bytes = to_size(extent_);
    constexpr int kPages = PROT_READ | PROT_WRITE;
    if (!shared_.contains(source)) {
      constexpr int kShared = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
      if (::mmap(from, bytes, kPages, kShared, -1, 0) == MAP_FAILED) return failed();
      shared_.insert(source);
    }
    shared_.insert(offset);
    // For shared pages an old size of 0 leaves the old mapping as it is.
    if (::mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base_ + offset.count) ==
        MAP_FAILED) {
      return failed();
    }
    return {};
  }
  static Error failed() {
    Error error = io_error("an alias in a device arena", errno);
    error.code = ErrorCode::kResourceExhausted;
    return error;
  }

  std::byte* base_;
  const Bytes bytes_;
  const Bytes extent_;
  std::set<Bytes> shared_;   // extents that are aliases, or have one
  std::set<Bytes> aliases_;  // extents that show another's memory
  std::atomic<std::int64_t> taken_{0};
};

}  // namespace

Result<std::unique_ptr<ArenaMemory>> reserve_host_arena(Bytes bytes, Bytes extent) {
  if (bytes.count < 0 || bytes.count > (std::int64_t{1} << 46)) {
    return invalid_argument("a device arena cannot have " + std::to_string(bytes.count) + " bytes");
  }
  if (bytes.count == 0) {
    return std::unique_ptr<ArenaMemory>(std::make_unique<HostArenaMemory>(nullptr, bytes, extent));
  }
  void* base = ::mmap(nullptr, to_size(bytes), PROT_NONE, kReserved, -1, 0);
  if (base == MAP_FAILED) {
    Error error = io_error(
        "reserving a device arena of " + std::to_string(bytes.count >> 20) + " MiB", errno);
    error.code = ErrorCode::kResourceExhausted;
    return error;
  }
  return std::unique_ptr<ArenaMemory>(
      std::make_unique<HostArenaMemory>(static_cast<std::byte*>(base), bytes, extent));
}

}  // namespace causeway::device
