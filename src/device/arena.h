// All memory of a slice (docs/decisions/0010-hbm-is-one-estate.md): a contiguous range of
// addresses, given out in extents of 32 MiB. KV frames lie at the low end, weight caches at the
// high end, and memory moves between them. Free extents have no memory behind them.
//
//   base │ KV │ KV │ KV │ free …… free │ weights ░░░░ weights │ weights │
//          0    1    2                    n-6                    n-1      ExtentId
//
// Extents have memory as long as they are held. An AddressRange holds addresses only: memory is
// committed to some of its extents and taken away again (░), and the addresses stay.
//
// Thread-safe. Putting memory behind addresses takes time (a GPU: about 50 µs an extent, more when
// it is zeroed). Such work happens one after the other, in batches of a few extents, so that a
// small allocation does not wait for a large commit; allocated() takes no lock, and free_extents()
// none that is held meanwhile. Extents and ranges must not outlive their Arena.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::device {

inline constexpr Bytes kExtentBytes = mib(32);

// How a backend reserves addresses and puts memory behind them. Called by one thread at a time.
class ArenaMemory {
 public:
  enum class Fill {
    kZeroed,
    kAsIs,  // the former contents, even another model's weights
  };
  virtual ~ArenaMemory() = default;
  // The start of the reserved range; never changes.
  virtual std::byte* base() const = 0;
  // Puts memory behind [offset, offset + bytes). kResourceExhausted when there is none; then
  // nothing stays mapped.
  virtual Status map(Bytes offset, Bytes bytes, Fill fill) = 0;
  // Unmaps what one or several calls mapped. The backend may keep the memory for the next map().
  virtual void unmap(Bytes offset, Bytes bytes) = 0;
  // Gives back the memory that unmap() kept.
  virtual void trim() = 0;
  // Puts the memory behind [source, source + bytes), which is mapped, also behind [offset, offset +
  // bytes), which is not. Its contents are lost. unmap() removes the alias, and must do so before
  // it unmaps the source. kResourceExhausted; then nothing stays mapped at `offset`.
  virtual Status alias(Bytes offset, Bytes bytes, Bytes source) = 0;
  // The device's memory that is mapped, or that unmap() kept. Any thread.
  virtual Bytes taken() const = 0;
};

class Arena;

// Some neighbouring extents, which are given back on destruction. Move-only.
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

// Neighbouring extents as addresses, without memory until it is committed. The destructor removes
// all memory and gives the addresses back. Move-only.
//
// commit() and decommit() of different extents may be called by different threads at once. Nothing
// may use an extent's bytes when it is decommitted.
class AddressRange {
 public:
  AddressRange() = default;
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;
  ~AddressRange();

  std::byte* data() const;
  Bytes offset() const;  // from the arena's base
  std::int64_t extents() const { return extents_; }
  Bytes bytes() const;

  // Puts memory behind the extents [first, first + count) of the range, none of which has any. The
  // memory is not zeroed. kResourceExhausted with the numbers; then nothing of the attempt stays.
  // Blocks while memory is mapped.
  Status commit(std::int64_t first, std::int64_t count);
  // Puts the memory of the extents [source, source + count), which is committed, also behind
  // [first, first + count), which have none. Both then show the same bytes, and the former bytes
  // are lost. Work that writes by one address and work that reads by the other must be ordered as
  // by a stream. decommit() ends the alias, and must do so before the source is decommitted. Errors
  // as commit().
  Status alias(std::int64_t first, std::int64_t source, std::int64_t count);
  // Removes the memory behind the extents, all of which have some. Blocks while it is unmapped.
  void decommit(std::int64_t first, std::int64_t count);
  // Whether all of these extents have memory. Takes no lock.
  bool committed(std::int64_t first, std::int64_t count) const;

 private:
  friend class Arena;
  AddressRange(Arena* arena, ExtentId first, std::int64_t extents)
      : arena_(arena), first_(first), extents_(extents) {}
  void give_back();
  bool has(std::int64_t first, std::int64_t count) const {
    return first >= 0 && count >= 0 && count <= extents_ && first <= extents_ - count;
  }

  Arena* arena_ = nullptr;
  ExtentId first_;
  std::int64_t extents_ = 0;
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

  // The `count` ≥ 1 neighbouring free extents that are nearest to an end, zeroed.
  // kResourceExhausted.
  Result<Extents> allocate(std::int64_t count, End end);
  // The addresses of the `extents` ≥ 1 neighbouring free extents that are nearest to an end.
  // kResourceExhausted.
  Result<AddressRange> reserve(std::int64_t extents, End end = End::kHigh);

  std::byte* base() const { return memory_->base(); }
  Bytes extent_bytes() const { return extent_bytes_; }
  std::int64_t extents() const { return extents_; }
  // How many extents hold `bytes`: at least one.
  std::int64_t extents_for(Bytes bytes) const;
  // The number of extents that are neither allocated nor reserved.
  std::int64_t free_extents() const;
  // Whether all of [offset, offset + bytes) has memory behind it. Takes no lock.
  bool allocated(Bytes offset, Bytes bytes) const;
  // Gives back the memory that is kept for the next extents.
  void trim();
  // The device's memory that the arena has, including what is kept for the next extents. Takes no
  // lock.
  Bytes memory_taken() const { return memory_->taken(); }

 private:
  friend class Extents;
  friend class AddressRange;

  // A lock that serves threads in the order of their arrival, so that a thread that takes it often
  // for a short time does not keep others out.
  class FairMutex {
   public:
    void lock();
    void unlock();

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t next_ = 0;
    std::uint64_t serving_ = 0;
  };

  // The addresses of extents, without memory.
  Result<ExtentId> book(std::int64_t count, End end);
  void unbook(ExtentId first, std::int64_t count);
  // Memory behind booked extents.
  Status map(ExtentId first, std::int64_t count, ArenaMemory::Fill fill);
  Status alias(ExtentId first, ExtentId source, std::int64_t count);
  void unmap(ExtentId first, std::int64_t count);
  void unmap_in_batches(std::int64_t first, std::int64_t count);
  void mark(ExtentId first, std::int64_t count, bool backed);
  bool backed(std::int64_t extent) const {
    return backed_[static_cast<std::size_t>(extent)].load(std::memory_order_acquire);
  }

  const std::unique_ptr<ArenaMemory> memory_;
  const std::int64_t extents_;
  const Bytes extent_bytes_;
  // By extent: whether it has memory. The thread that booked the extent sets it after mapping and
  // clears it before unmapping.
  std::vector<std::atomic<bool>> backed_;
  FairMutex mapping_;         // held during calls of memory_, and then nothing else is
  mutable std::mutex mutex_;  // guards what follows
  std::int64_t free_;
  std::map<std::int64_t, std::int64_t> runs_;  // of free extents: the first, how many; no two touch
};

}  // namespace causeway::device
