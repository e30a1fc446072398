// The one estate of a slice's memory (decision 3): a contiguous reserved range of addresses, handed
// out in extents of 32 MiB. KV frames grow from the low end, weight caches from the high end, so
// that the boundary between them can move; what is free has no memory behind it.
//
//   base │ KV │ KV │ KV │ free …… free │ weights │ weights │
//          0    1    2                    n-2       n-1      ExtentId
//
// Thread-safe. Extents must not outlive their Arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::device {

inline constexpr Bytes kExtentBytes = mib(32);

// A backend's way to reserve addresses and to put memory behind them. Called by one thread at a
// time.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;
  // The start of the reserved range; never changes.
  virtual std::byte* base() const = 0;
  // Puts zeroed memory behind [offset, offset + bytes). kResourceExhausted when there is none.
  virtual Status map(Bytes offset, Bytes bytes) = 0;
  virtual void unmap(Bytes offset, Bytes bytes) = 0;
};

class Arena;

// Some neighbouring extents, given back when destroyed. Move-only.
class Extents {
 public:
  Extents() = default;
  Extents(Extents&& other) noexcept;
  Extents& operator=(Extents&& other) noexcept;
  ~Extents();

  ExtentId first() const { return first_; }
  std::int64_t count() const { return count_; }
  Bytes offset() const;  // from the arena's base
  Bytes bytes() const;
  std::byte* data() const;

 private:
  friend class Arena;
  Extents(Arena* arena, ExtentId first, std::int64_t count)
      : arena_(arena), first_(first), count_(count) {}
  void give_back();

  Arena* arena_ = nullptr;
  ExtentId first_;
  std::int64_t count_ = 0;
};

class Arena {
 public:
  enum class End { kLow, kHigh };

  // `extents` extents of `extent_bytes` each, over memory that reserves at least as much.
  Arena(std::unique_ptr<ArenaMemory> memory, std::int64_t extents,
        Bytes extent_bytes = kExtentBytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The nearest `count` ≥ 1 neighbouring free extents from an end. kResourceExhausted.
  Result<Extents> allocate(std::int64_t count, End end);

  std::byte* base() const { return memory_->base(); }
  Bytes extent_bytes() const { return extent_bytes_; }
  std::int64_t extents() const { return extents_; }
  // How many extents hold `bytes`: at least one.
  std::int64_t extents_for(Bytes bytes) const;
  std::int64_t free_extents() const;
  // Whether all of [offset, offset + bytes) is allocated.
  bool allocated(Bytes offset, Bytes bytes) const;

 private:
  friend class Extents;
  void free(ExtentId first, std::int64_t count);

  const std::unique_ptr<ArenaMemory> memory_;
  const std::int64_t extents_;
  const Bytes extent_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  std::int64_t free_;
  std::vector<std::atomic<bool>> used_;  // by extent; read without the lock, too
};

}  // namespace causeway::device
