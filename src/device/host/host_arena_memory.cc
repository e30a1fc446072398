#include "device/host/host_arena_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "device/memory_headroom.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace causeway::device {
namespace {

constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Memory that is to lie at an arena's addresses is mapped elsewhere first and then moved there. A
// mapping straight over them (MAP_FIXED) may fail after it took away what was there, and another
// thread's malloc may have the addresses a moment later. A move is refused before anything is taken
// away; only a kernel without memory for its own tables fails later, and put() finds out what
// became of the addresses.
class HostArenaMemory final : public ArenaMemory {
 public:
  HostArenaMemory(std::byte* base, Bytes bytes, Bytes extent, HostArenaCalls calls)
      : base_(base), bytes_(bytes), extent_(extent), calls_(std::move(calls)) {}
  ~HostArenaMemory() override {
    Bytes at;
    for (const Bytes lost : lost_) {
      give_back(at, lost - at);
      at = lost + extent_;
    }
    give_back(at, bytes_ - at);
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
    CAUSEWAY_TRY(end_shared(offset, bytes));
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
    taken_ -= bytes.count - forget_aliases(offset, bytes).count;
    if (!any_of(shared_, offset, bytes) && !any_of(lost_, offset, bytes)) {
      return hide(offset, bytes);
    }
    for (Bytes at = offset; at < offset + bytes; at += extent_) {
      // Where this fails, shared pages stay in memory until map() ends them.
      if (shared_.contains(at)) make_private(at);
      if (!lost_.contains(at)) hide(at, extent_);
    }
  }

  // Private pages cannot show at two addresses, so the source is made shared first.
  Status alias(Bytes offset, Bytes bytes, Bytes source) override {
    for (Bytes at; at < bytes; at += extent_) {
      if (Status aliased = alias_extent(offset + at, source + at); !aliased.ok()) {
        if (at > Bytes(0)) unmap(offset, at);
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
  static bool any_of(const std::set<Bytes>& extents, Bytes offset, Bytes bytes) {
    const auto first = extents.lower_bound(offset);
    return first != extents.end() && *first < offset + bytes;
  }
  void give_back(Bytes offset, Bytes bytes) {
    if (bytes > Bytes(0)) ::munmap(base_ + offset.count, to_size(bytes));
  }
  // Takes pages and access away; the addresses stay reserved.
  void hide(Bytes offset, Bytes bytes) {
    ::madvise(base_ + offset.count, to_size(bytes), MADV_DONTNEED);
    ::mprotect(base_ + offset.count, to_size(bytes), PROT_NONE);
  }

  Status alias_extent(Bytes offset, Bytes source) {
    CAUSEWAY_TRY(end_shared(offset, extent_));
    CAUSEWAY_TRY(share(source));
    // For shared pages an old size of 0 leaves the old mapping as it is.
    void* const again = ::mremap(base_ + source.count, 0, to_size(extent_), MREMAP_MAYMOVE);
    if (again == MAP_FAILED) return failed();
    if (!put(static_cast<std::byte*>(again), offset)) return failed();
    shared_.insert(offset);
    aliases_.insert(offset);
    return {};
  }
  Status share(Bytes source) {
    if (lost_.contains(source)) return lost();
    if (shared_.contains(source)) return {};
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    std::byte* const made =
        calls_.map({extent_, kAccess, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE});
    if (made == nullptr) return failed();
    if (!put(made, source)) {
      Error error = failed();
      // The source stays mapped for its owner.
      if (!lost_.contains(source)) {
        ::mprotect(base_ + source.count, to_size(extent_), kAccess);
      }
      return error;
    }
    shared_.insert(source);
    return {};
  }
  // An extent without access in the place of shared pages. It may fail, or lose the extent.
  void make_private(Bytes at) {
    std::byte* const empty = calls_.map({extent_, PROT_NONE, kReserved});
    if (empty == nullptr) return;
    put(empty, at);
    shared_.erase(at);
  }
  // What unmap() could not end. An error, too, for extents that are lost.
  Status end_shared(Bytes offset, Bytes bytes) {
    for (Bytes at = offset; at < offset + bytes; at += extent_) {
      if (shared_.contains(at)) make_private(at);
      if (shared_.contains(at)) return failed();
      if (lost_.contains(at)) return lost();
    }
    return {};
  }
  // Moves what was mapped at `made` to the extent, or unmaps it. After false, with errno, the
  // extent is reserved and has no memory, or it is lost: something is at its addresses, and nothing
  // tells whether that is still the arena's.
  bool put(std::byte* made, Bytes at) {
    std::byte* const target = base_ + at.count;
    if (calls_.move({made, target, extent_})) return true;
    const int cause = errno;
    ::munmap(made, to_size(extent_));
    void* const again =
        ::mmap(target, to_size(extent_), PROT_NONE, kReserved | MAP_FIXED_NOREPLACE, -1, 0);
    if (again != target) {
      if (again != MAP_FAILED) ::munmap(again, to_size(extent_));  // before Linux 4.17: a hint
      lost_.insert(at);
    }
    errno = cause;
    return false;
  }
  static Error lost() {
    return exhausted(
        "an extent of a device arena is not used any more: its addresses may be another thread's "
        "since the system failed to map memory there; restart the program to have it back");
  }
  static Error failed() {
    Error error = io_error("an alias in a device arena", errno);
    error.code = ErrorCode::kResourceExhausted;
    return error;
  }

  std::byte* base_;
  const Bytes bytes_;
  const Bytes extent_;
  const HostArenaCalls calls_;
  std::set<Bytes> shared_;   // extents that are aliases, or had one
  std::set<Bytes> aliases_;  // extents that show another's memory
  std::set<Bytes> lost_;     // extents that are neither used nor unmapped any more
  std::atomic<std::int64_t> taken_{0};
};

}  // namespace

HostArenaCalls::HostArenaCalls()
    : map([](const Map& asked) -> std::byte* {
        void* const made =
            ::mmap(nullptr, to_size(asked.bytes), asked.protection, asked.flags, -1, 0);
        return made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
      }),
      move([](const Move& asked) {
        const std::size_t bytes = to_size(asked.bytes);
        return ::mremap(asked.from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, asked.to) !=
               MAP_FAILED;
      }) {}

Result<std::unique_ptr<ArenaMemory>> reserve_host_arena(Bytes bytes, Bytes extent,
                                                        HostArenaCalls calls) {
  if (bytes.count < 0 || bytes.count > (std::int64_t{1} << 46)) {
    return invalid_argument("a device arena cannot have " + std::to_string(bytes.count) + " bytes");
  }
  std::byte* base = nullptr;
  if (bytes.count > 0) base = calls.map({bytes, PROT_NONE, kReserved});
  if (bytes.count > 0 && base == nullptr) {
    Error error = io_error(
        "reserving a device arena of " + std::to_string(bytes.count >> 20) + " MiB", errno);
    error.code = ErrorCode::kResourceExhausted;
    return error;
  }
  return std::unique_ptr<ArenaMemory>(
      std::make_unique<HostArenaMemory>(base, bytes, extent, std::move(calls)));
}

}  // namespace causeway::device
