#include "schedule/sequence_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::schedule {

SlotIndex SequenceTable::add() {
  SlotIndex index;
  if (free_.empty()) {
    index = size();
    slots_.emplace_back();
    heap_positions_.push_back(-1);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  CAUSEWAY_DCHECK(!(*this)[index].live && heap_place(index) < 0, "a free slot holds a sequence");
  (*this)[index] = Slot();
  (*this)[index].live = true;
  return index;
}

void SequenceTable::free(SlotIndex index) {
  CAUSEWAY_DCHECK(!(*this)[index].live && (*this)[index].in_flight == 0,
                  "a slot is freed that a sequence or a step still uses");
  (*this)[index] = Slot();
  free_.push_back(index);
}

void WaitingHeap::place(SequenceTable& table, std::size_t at, SlotIndex index) {
  CAUSEWAY_DCHECK(at < heap_.size(), "a place beyond the heap");
  heap_[at] = index;
  table.heap_place(index) = static_cast<std::int32_t>(at);
}

void WaitingHeap::sift_up(SequenceTable& table, std::size_t at) {
  const SlotIndex moving = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / 2;
    if (!table.before(moving, heap_[parent])) break;
    place(table, at, heap_[parent]);
    at = parent;
  }
  place(table, at, moving);
}

void WaitingHeap::sift_down(SequenceTable& table, std::size_t at) {
  const SlotIndex moving = heap_[at];
  while (true) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && table.before(heap_[child + 1], heap_[child])) ++child;
    if (!table.before(heap_[child], moving)) break;
    place(table, at, heap_[child]);
    at = child;
  }
  place(table, at, moving);
}

void WaitingHeap::push(SequenceTable& table, SlotIndex index) {
  CAUSEWAY_DCHECK(table.heap_place(index) < 0, "a sequence waits twice");
  heap_.push_back(index);
  sift_up(table, heap_.size() - 1);
}

void WaitingHeap::erase(SequenceTable& table, SlotIndex index) {
  const auto at = static_cast<std::size_t>(table.heap_place(index));
  CAUSEWAY_CHECK(at < heap_.size() && heap_[at] == index, "sequence is not in this waiting heap");
  const SlotIndex last = heap_.back();
  heap_.pop_back();
  table.heap_place(index) = -1;
  if (last == index) return;
  heap_[at] = last;
  sift_up(table, at);
  sift_down(table, static_cast<std::size_t>(table.heap_place(last)));
}

void WaitingHeap::rebuild(SequenceTable& table) {
  for (std::size_t at = heap_.size(); at-- > 0;) sift_down(table, at);
  CAUSEWAY_DCHECK(ordered(table), "a heap that was built anew is in order");
}

bool WaitingHeap::ordered(const SequenceTable& table) const {
  for (std::size_t at = 0; at < heap_.size(); ++at) {
    if (table.heap_place(heap_[at]) != static_cast<std::int32_t>(at)) return false;
    if (at > 0 && table.before(heap_[at], heap_[(at - 1) / 2])) return false;
  }
  return true;
}

void RunningList::insert(const SequenceTable& table, SlotIndex index) {
  const auto before = [&table](SlotIndex a, SlotIndex b) { return table.before(a, b); };
  // Sequences that rotate come in and leave at the ends, which saves a search through cold memory.
  if (list_.empty() || before(index, list_.front())) {
    list_.insert(list_.begin(), index);
    return;
  }
  list_.insert(std::upper_bound(list_.begin(), list_.end(), index, before), index);
}

void RunningList::erase(const SequenceTable& table, SlotIndex index) {
  if (!list_.empty() && list_.back() == index) {
    list_.pop_back();
    return;
  }
  const auto before = [&table](SlotIndex a, SlotIndex b) { return table.before(a, b); };
  const auto at = std::lower_bound(list_.begin(), list_.end(), index, before);
  CAUSEWAY_CHECK(at != list_.end() && *at == index, "sequence is not in this running list");
  list_.erase(at);
}

void RunningList::rebuild(const SequenceTable& table) {
  std::sort(list_.begin(), list_.end(),
            [&table](SlotIndex a, SlotIndex b) { return table.before(a, b); });
}

bool RunningList::ordered(const SequenceTable& table) const {
  return std::is_sorted(list_.begin(), list_.end(),
                        [&table](SlotIndex a, SlotIndex b) { return table.before(a, b); });
}

}  // namespace causeway::schedule
