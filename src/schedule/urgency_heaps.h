// Requests outside HBM by urgency, for lags that grow with time: finds the one that leads at `now`
// without looking at all of them.
//
//   lag(now) = slope × max(0, now − onset)          (SuperInfer's VLT of waiting and rotary)
//
// With the same slope, the earlier onset leads at all times. There is therefore one heap for
// each slope, whose order does not depend on `now`, and the leader is the best of the heaps' tops.
// Tiers have precedence over lags: a member of a higher tier leads whatever the lags are.
//
// Order: tier, larger first; lag, larger first; onset, arrival, id, smaller first. For a given now
// this is a total order, the same as sorting all anew.
//
// Cost: leader() O(slopes), the rest O(log members). Internal to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace causeway::schedule {

struct Standing {
  double slope = 1;  // finite, ≥ 0
  Nanos onset;       // before it the lag is 0
  std::int32_t tier = 0;

  double lag(Nanos now) const { return now > onset ? slope * to_seconds(now - onset) : 0.0; }
  bool operator==(const Standing&) const = default;
};

// A member and the values that decide its place.
struct Ranked {
  Standing standing;
  Nanos arrival;
  std::int64_t id = 0;      // of the request: the last tie-break
  std::int32_t index = -1;  // the member's slot, ≥ 0
};

// Whether `a` leads `b` at `now`.
bool leads(const Ranked& a, const Ranked& b, Nanos now);

// The place of each slot's member. It is shared by all heaps that rank the same slots, because a
// slot is in at most one of them.
class HeapPositions {
 public:
  struct Position {
    std::int32_t heap = -1;  // -1: in none
    std::int32_t at = -1;
  };
  Position& operator[](std::int32_t index) {
    const auto i = static_cast<std::size_t>(index);
    if (i >= positions_.size()) positions_.resize(i + 1);
    return positions_[i];
  }
  Position of(std::int32_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return i < positions_.size() ? positions_[i] : Position();
  }

 private:
  std::vector<Position> positions_;
};

class UrgencyHeaps {
 public:
  // The slot must be in no heap that shares `positions`.
  void push(HeapPositions& positions, const Ranked& member);
  void erase(HeapPositions& positions, std::int32_t index);

  bool empty() const { return size_ == 0; }
  std::int64_t size() const { return size_; }
  // Null if there is none. Valid until the next change.
  const Ranked* leader(Nanos now) const;
  // Calls visit(const Ranked&) until it returns false, in no particular order.
  template <typename Visit>
  void each(Visit visit) const {
    for (const Heap& heap : heaps_) {
      for (const Ranked& member : heap.members) {
        if (!visit(member)) return;
      }
    }
  }
  // For tests: every heap is ordered, and every place is right.
  bool ordered(const HeapPositions& positions) const;

 private:
  struct Heap {
    double slope = 0;
    std::vector<Ranked> members;
  };

  // The children of a member: with so many the heap is half as deep as with two, and they lie side
  // by side.
  static constexpr std::size_t kArity = 4;

  std::int32_t heap_of(double slope);
  static bool before(const Ranked& a, const Ranked& b);
  void place(HeapPositions& positions, Heap& heap, std::size_t at, const Ranked& member);
  void sift_up(HeapPositions& positions, Heap& heap, std::size_t at);
  void sift_down(HeapPositions& positions, Heap& heap, std::size_t at);

  std::vector<Heap> heaps_;  // an empty heap may be given to another slope
  std::int64_t size_ = 0;
};

}  // namespace causeway::schedule
