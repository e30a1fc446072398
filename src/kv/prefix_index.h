// Which frame holds which full block: a hash table of frame ids beside 32 bits of each hash, so
// that a look-up mostly touches one cache line. The frames' owner has the whole hash, and checks
// it.
//
//   slots   │ tag frame │ · │ tag frame │ tag frame │ · │      at most half full
//             home = tag mod slots; those behind it that are not home stand next to it
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "kv/prefix_hash.h"

namespace causeway::kv {

class PrefixIndex {
 public:
  PrefixIndex() : slots_(kSlotsMin) {}

  // The frame, among those with an equal tag, for which holds(frame) is true; invalid when there is
  // none.
  template <typename Holds>
  FrameId find(const PrefixHash& hash, Holds holds) const {
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t at = tag & mask(); slots_[at].taken(); at = (at + 1) & mask()) {
      const FrameId frame(slots_[at].frame - 1);
      if (slots_[at].tag == tag && holds(frame)) return frame;
    }
    return FrameId();
  }
  // The block must not be in the index yet.
  void insert(const PrefixHash& hash, FrameId frame) {
    if (static_cast<std::size_t>(++size_) * 2 > slots_.size()) grow();
    put({tag_of(hash), static_cast<std::int32_t>(frame.value + 1)});
  }
  // The frame must have been inserted with this hash.
  void erase(const PrefixHash& hash, FrameId frame) {
    std::size_t hole = tag_of(hash) & mask();
    while (slots_[hole].frame != frame.value + 1) {
      CAUSEWAY_CHECK(slots_[hole].taken(), "the frame is not in the index");
      hole = (hole + 1) & mask();
    }
    --size_;
    // Entries behind it that are not at home move up, so that they are still found.
    for (std::size_t at = (hole + 1) & mask(); slots_[at].taken(); at = (at + 1) & mask()) {
      const std::size_t from_home = (at - slots_[at].tag) & mask();
      if (from_home < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
  }
  std::int64_t size() const { return size_; }

 private:
  static constexpr std::size_t kSlotsMin = 64;

  struct Slot {
    std::uint32_t tag = 0;
    std::int32_t frame = 0;  // the frame's id + 1; 0: empty
    bool taken() const { return frame != 0; }
  };

  static std::uint32_t tag_of(const PrefixHash& hash) {
    return static_cast<std::uint32_t>(hash.low);
  }
  std::size_t mask() const { return slots_.size() - 1; }
  void put(Slot slot) {
    std::size_t at = slot.tag & mask();
    while (slots_[at].taken()) at = (at + 1) & mask();
    slots_[at] = slot;
  }
  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(slots_.size() * 2));
    for (const Slot& slot : before) {
      if (slot.taken()) put(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::int64_t size_ = 0;
};

}  // namespace causeway::kv
