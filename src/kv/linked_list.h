// A list of ids, linked through the items themselves: every move is O(1) and allocates nothing.
// `at(id)` yields the item, which has the members `previous` and `next`. An item is on at most one
// list, and the caller that moves it knows which.
#pragma once

namespace causeway::kv {

template <typename ItemId>
struct LinkedList {
  ItemId first, last;

  bool empty() const { return !first.valid(); }

  template <typename At>
  void push_back(At&& at, ItemId id) {
    at(id).previous = last;
    at(id).next = ItemId();
    (last.valid() ? at(last).next : first) = id;
    last = id;
  }

  template <typename At>
  void push_front(At&& at, ItemId id) {
    at(id).previous = ItemId();
    at(id).next = first;
    (first.valid() ? at(first).previous : last) = id;
    first = id;
  }

  template <typename At>
  void unlink(At&& at, ItemId id) {
    const ItemId previous = at(id).previous, next = at(id).next;
    (previous.valid() ? at(previous).next : first) = next;
    (next.valid() ? at(next).previous : last) = previous;
  }
};

}  // namespace causeway::kv
