// Finds the slice that suits a model best without looking at all slices: a binary tree over the
// slices. Each node knows, for each resource by itself, the best that any slice below it has. A
// demand's excess over these values is a lower bound of its excess on every slice below (sums and
// quotients of floating-point numbers are monotone, so the bound is exact to the last bit). A
// search that goes to the smaller bound first leaves out what cannot be better than the best slice
// found so far.
//
//            1                leaves are slices, by id; leaves beyond the last slice offer nothing
//        2       3
//      4   5   6   7          touch() marks a leaf; bring_up() updates the marked leaves' ancestors
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "fleet/fleet_spec.h"

namespace causeway::fleet {

class FleetView;
struct SliceView;

// What would be used and free on a slice if certain models left, or the best of each resource over
// several slices. The initial values are those of no slice.
struct Offer {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double memory_rate = kNone;     // bytes per second that are used
  double flops = kNone;           // floating-point operations per second that are used
  double link = kNone;            // bytes per second that all slices of the link use of it
  std::int64_t free = INT64_MIN;  // bytes beside the least memory of the other models
  std::int64_t room = INT64_MIN;  // bytes of `free` beside what stays of the other models' weights
  std::int64_t places = INT64_MIN;  // models that may still come
};

struct IndexNode {
  Offer now;                   // with all models
  Offer gone;                  // without the models that may go
  Offer drained;               // without those that may be drained
  double load = Offer::kNone;  // the smallest SliceView::load()
  // The largest limits.
  double memory_rate_max = 0, flops_max = 0, link_max = 0, link_share_max = 0;
  // The smallest free memory, and the fewest models that may still come, with all models in place.
  // They tell whether there is a slice from which a model would have to leave.
  std::int64_t free_least = INT64_MAX, places_least = INT64_MAX;
  // The cheapest to bring back of the models that may go, and of those that may be drained: the
  // number of them with requests (0 or 1; 2: there is no such model) and the log_cost().
  std::int64_t go_busy = 2, drain_busy = 2;
  double go_log = Offer::kNone, drain_log = Offer::kNone;
  std::int64_t models = INT64_MAX;  // the fewest models on a slice
};

class FleetIndex {
 public:
  explicit FleetIndex(std::int64_t slices);

  void touch(SliceId slice);
  void bring_up(const FleetView& view);
  std::int64_t marked() const { return std::ssize(renew_); }

  static constexpr std::size_t kRoot = 1;  // its children are 2n and 2n + 1
  const IndexNode& node(std::size_t n) const { return nodes_[n]; }
  bool is_leaf(std::size_t n) const { return n >= leaves_; }
  // The first slice below a node.
  SliceId first_below(std::size_t n) const;

 private:
  std::size_t leaves_ = 1;  // a power of two
  std::vector<IndexNode> nodes_;
  std::vector<bool> marked_;  // nodes that must be updated
  std::vector<std::size_t> renew_;
};

}  // namespace causeway::fleet
