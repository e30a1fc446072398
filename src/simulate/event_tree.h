// Finds which of many things has the next event: a tree of minima. The first of thousands is found
// at once, and a change of one costs the depth of the tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace causeway::simulate {

class EventTree {
 public:
  explicit EventTree(std::int64_t count)
      : leaves_(std::bit_ceil(static_cast<std::size_t>(std::max<std::int64_t>(1, count)))),
        first_(2 * leaves_, kNever) {}

  void set(std::int64_t index, Nanos at) {
    std::size_t n = leaves_ + static_cast<std::size_t>(index);
    first_[n] = at;
    for (n /= 2; n > 0; n /= 2) {
      const Nanos first = std::min(first_[2 * n], first_[2 * n + 1]);
      if (first_[n] == first) break;
      first_[n] = first;
    }
  }
  Nanos first() const { return first_[1]; }
  // Calls visit(index) for the things that are due by `now`, in the order of their indices. visit()
  // must not call set().
  template <typename Visit>
  void each_due(Nanos now, Visit visit) const {
    look(1, now, visit);
  }

 private:
  template <typename Visit>
  void look(std::size_t n, Nanos now, Visit& visit) const {
    if (first_[n] > now) return;
    if (n >= leaves_) {
      visit(static_cast<std::int64_t>(n - leaves_));
      return;
    }
    look(2 * n, now, visit);
    look(2 * n + 1, now, visit);
  }

  std::size_t leaves_;
  std::vector<Nanos> first_;  // by node: children of n are 2n and 2n + 1
};

}  // namespace causeway::simulate
