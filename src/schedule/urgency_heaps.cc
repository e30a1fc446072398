#include "schedule/urgency_heaps.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::schedule {
namespace {

auto among_equals(const Ranked& member) {
  return std::tuple(member.standing.onset, member.arrival, member.id);
}

}  // namespace

bool leads(const Ranked& a, const Ranked& b, Nanos now) {
  if (a.standing.tier != b.standing.tier) return a.standing.tier > b.standing.tier;
  const double lag_a = a.standing.lag(now);
  const double lag_b = b.standing.lag(now);
  if (lag_a != lag_b) return lag_a > lag_b;
  return among_equals(a) < among_equals(b);
}

// As leads(), for members with the same slope, at any time.
bool UrgencyHeaps::before(const Ranked& a, const Ranked& b) {
  if (a.standing.tier != b.standing.tier) return a.standing.tier > b.standing.tier;
  return among_equals(a) < among_equals(b);
}

std::int32_t UrgencyHeaps::heap_of(double slope) {
  CAUSEWAY_CHECK(std::isfinite(slope) && slope >= 0, "lags grow, and at a rate that is a number");
  std::int32_t empty = -1;
  for (std::size_t i = 0; i < heaps_.size(); ++i) {
    if (heaps_[i].slope == slope) return static_cast<std::int32_t>(i);
    if (heaps_[i].members.empty()) empty = static_cast<std::int32_t>(i);
  }
  if (empty < 0) {
    empty = static_cast<std::int32_t>(heaps_.size());
    heaps_.emplace_back();
  }
  heaps_[static_cast<std::size_t>(empty)].slope = slope;
  return empty;
}

void UrgencyHeaps::place(HeapPositions& positions, Heap& heap, std::size_t at,
                         const Ranked& member) {
  CAUSEWAY_DCHECK(at < heap.members.size() && member.index >= 0, "a place beyond the heap");
  heap.members[at] = member;
  positions[member.index].at = static_cast<std::int32_t>(at);
}

void UrgencyHeaps::sift_up(HeapPositions& positions, Heap& heap, std::size_t at) {
  const Ranked moving = heap.members[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / kArity;
    if (!before(moving, heap.members[parent])) break;
    place(positions, heap, at, heap.members[parent]);
    at = parent;
  }
  place(positions, heap, at, moving);
}

void UrgencyHeaps::sift_down(HeapPositions& positions, Heap& heap, std::size_t at) {
  const Ranked moving = heap.members[at];
  const std::vector<Ranked>& members = heap.members;
  while (true) {
    std::size_t child = kArity * at + 1;
    if (child >= members.size()) break;
    const std::size_t end = std::min(child + kArity, members.size());
    for (std::size_t other = child + 1; other < end; ++other) {
      if (before(members[other], members[child])) child = other;
    }
    if (!before(members[child], moving)) break;
    place(positions, heap, at, members[child]);
    at = child;
  }
  place(positions, heap, at, moving);
}

void UrgencyHeaps::push(HeapPositions& positions, const Ranked& member) {
  HeapPositions::Position& where = positions[member.index];
  CAUSEWAY_CHECK(where.heap < 0, "a request is ranked twice");
  where.heap = heap_of(member.standing.slope);
  Heap& heap = heaps_[static_cast<std::size_t>(where.heap)];
  heap.members.push_back(member);
  sift_up(positions, heap, heap.members.size() - 1);
  ++size_;
}

void UrgencyHeaps::erase(HeapPositions& positions, std::int32_t index) {
  const HeapPositions::Position where = positions[index];
  CAUSEWAY_CHECK(where.heap >= 0 && where.heap < std::ssize(heaps_), "a request is not ranked");
  Heap& heap = heaps_[static_cast<std::size_t>(where.heap)];
  const auto at = static_cast<std::size_t>(where.at);
  CAUSEWAY_CHECK(at < heap.members.size() && heap.members[at].index == index,
                 "a request is ranked somewhere else");
  positions[index] = {};
  --size_;
  const Ranked last = heap.members.back();
  heap.members.pop_back();
  if (at == heap.members.size()) return;
  place(positions, heap, at, last);
  sift_up(positions, heap, at);
  sift_down(positions, heap, static_cast<std::size_t>(positions[last.index].at));
}

const Ranked* UrgencyHeaps::leader(Nanos now) const {
  const Ranked* best = nullptr;
  for (const Heap& heap : heaps_) {
    if (heap.members.empty()) continue;
    const Ranked& top = heap.members.front();
    if (best == nullptr || leads(top, *best, now)) best = &top;
  }
  return best;
}

bool UrgencyHeaps::ordered(const HeapPositions& positions) const {
  std::int64_t members = 0;
  for (std::size_t h = 0; h < heaps_.size(); ++h) {
    const Heap& heap = heaps_[h];
    for (std::size_t at = 0; at < heap.members.size(); ++at) {
      const Ranked& member = heap.members[at];
      const HeapPositions::Position where = positions.of(member.index);
      if (where.heap != static_cast<std::int32_t>(h)) return false;
      if (where.at != static_cast<std::int32_t>(at)) return false;
      if (member.standing.slope != heap.slope) return false;
      if (at > 0 && before(member, heap.members[(at - 1) / kArity])) return false;
    }
    members += std::ssize(heap.members);
  }
  return members == size_;
}

}  // namespace causeway::schedule
