// The scheduler's sequences and the orders that they are in. Internal to this room.
//
// Slots are reused, and every order holds slot indices, so that an iteration allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "schedule/policy.h"
#include "schedule/scheduler.h"

namespace causeway::schedule {

using SlotIndex = std::int32_t;

// A sequence. The fields that every decision reads for every running sequence come first and fill
// one cache line; those that the end of a step reads are in the next.
struct alignas(64) Slot {
  std::int64_t owed = 0;      // known tokens not computed yet; with rotation only
  std::int64_t frames = 0;    // in its block table, once the decision is executed
  std::int64_t promised = 0;  // frames its known tokens still need; 0 unless running
  Tokens length_max{0};       // prompt and output
  std::int32_t model = -1;    // index into the scheduler's models
  std::int8_t in_flight = 0;  // decided steps that compute it
  std::int8_t pending = 0;    // known tokens that steps in flight sample
  bool live : 1 = false;
  // For rotation: it comes in with the decision that is being made.
  bool just_admitted : 1 = false;
  // It is outside, but a step or a copy of it is under way: it cannot come in yet.
  bool settling : 1 = false;
  // It was lost: what steps in flight compute for it does not count.
  bool voided : 1 = false;
  // It was lost once: no prefix is brought to it from host memory again.
  bool distrusts : 1 = false;
  // Its next token waits for something other than a step: it is passed over.
  bool held : 1 = false;
  bool scores : 1 = false;  // NewSequence::scores
  SequenceFacts facts;
  double urgency = 0;
  const std::vector<TokenId>* tokens = nullptr;  // borrowed from the engine

  // The number of its tokens that are looked up in the prefix index.
  std::span<const TokenId> prefix() const {
    return scores ? std::span<const TokenId>() : std::span(*tokens);
  }
  // The number of its tokens whose KV will be read. The last sampled token is never context.
  Tokens wanted() const { return std::min(facts.known, length_max - Tokens(1)); }
};
static_assert(offsetof(Slot, facts) + offsetof(SequenceFacts, model) == 64);
static_assert(offsetof(Slot, facts) + offsetof(SequenceFacts, alpha) == 128);
static_assert(sizeof(Slot) == 192);

class SequenceTable {
 public:
  SlotIndex add();
  void free(SlotIndex index);
  Slot& operator[](SlotIndex index) { return slots_[static_cast<std::size_t>(index)]; }
  const Slot& operator[](SlotIndex index) const { return slots_[static_cast<std::size_t>(index)]; }
  // Prefetches what every decision reads of a slot.
  void prefetch(SlotIndex index) const { __builtin_prefetch(&(*this)[index], 1); }
  // The slot's place in its WaitingHeap; -1: it is in none.
  std::int32_t& heap_place(SlotIndex index) {
    return heap_positions_[static_cast<std::size_t>(index)];
  }
  std::int32_t heap_place(SlotIndex index) const {
    return heap_positions_[static_cast<std::size_t>(index)];
  }
  SlotIndex size() const { return static_cast<SlotIndex>(slots_.size()); }

  // Whether `a` comes first.
  bool before(SlotIndex a, SlotIndex b) const {
    const Slot& x = (*this)[a];
    const Slot& y = (*this)[b];
    if (x.urgency != y.urgency) return x.urgency > y.urgency;
    if (x.facts.arrival != y.facts.arrival) return x.facts.arrival < y.facts.arrival;
    return x.facts.request < y.facts.request;
  }

 private:
  std::vector<Slot> slots_;
  std::vector<std::int32_t> heap_positions_;
  std::vector<SlotIndex> free_;
};

// The waiting sequences of one model: a binary heap, the most urgent on top, that can remove any
// member in O(log n) because each slot knows its place.
class WaitingHeap {
 public:
  bool empty() const { return heap_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  SlotIndex top() const { return heap_.front(); }
  const std::vector<SlotIndex>& members() const { return heap_; }

  void push(SequenceTable& table, SlotIndex index);
  void erase(SequenceTable& table, SlotIndex index);
  // Restores the order after urgencies have changed.
  void rebuild(SequenceTable& table);
  bool ordered(const SequenceTable& table) const;

 private:
  void place(SequenceTable& table, std::size_t at, SlotIndex index);
  void sift_up(SequenceTable& table, std::size_t at);
  void sift_down(SequenceTable& table, std::size_t at);

  std::vector<SlotIndex> heap_;
};

// Running sequences of one model, most urgent first: a sorted array (they are few, and all of them
// are walked every step).
class RunningList {
 public:
  bool empty() const { return list_.empty(); }
  std::int64_t size() const { return static_cast<std::int64_t>(list_.size()); }
  SlotIndex operator[](std::int64_t i) const { return list_[static_cast<std::size_t>(i)]; }
  SlotIndex back() const { return list_.back(); }
  const std::vector<SlotIndex>& members() const { return list_; }

  void insert(const SequenceTable& table, SlotIndex index);
  void erase(const SequenceTable& table, SlotIndex index);
  void pop_back() { list_.pop_back(); }
  void push_back(SlotIndex index) { list_.push_back(index); }
  void rebuild(const SequenceTable& table);
  bool ordered(const SequenceTable& table) const;

 private:
  std::vector<SlotIndex> list_;
};

}  // namespace causeway::schedule
