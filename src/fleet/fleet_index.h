// Finds the slice that suits a model best without looking at all of them: a binary tree over the
// slices, of which each node knows the best that any slice below it has of each resource, each
// resource by itself. A demand's excess over these is a lower bound of its excess on every slice
// below (sums and quotients of floating point are monotone, so that this holds to the last bit),
// and a search that goes to the smaller bound first leaves out whatever cannot be better than what
// it has found.
//
//            1                leaves are slices, by id; beyond the last they offer nothing
//        2       3
//      4   5   6   7          touch() marks a leaf; bring_up() renews the marked leaves' ancestors
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

// What of a slice would be used and left if certain models went, or the best of each resource over
// several slices. The initial values are those of no slice.
struct Offer {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double memory_rate = kNone;       // used, bytes a second
  double flops = kNone;             // likewise, a second
  double link = kNone;              // likewise, bytes a second, by all slices of the link
  std::int64_t free = INT64_MIN;    // of memory, beside the least of the others
  std::int64_t room = INT64_MIN;    // of that, beside what stays of their weights
  std::int64_t places = INT64_MIN;  // for models
};

struct IndexNode {
  Offer now;                   // as they are
  Offer gone;                  // without the models that may go
  Offer drained;               // without those that may be drained
  double load = Offer::kNone;  // the least
  // Limits: the largest.
  double memory_rate_max = 0, flops_max = 0, link_max = 0, link_share_max = 0;
  // The least free memory and places without any model going: they tell whether there is a slice
  // from which something has to go.
  std::int64_t free_least = INT64_MAX, places_least = INT64_MAX;
  // The cheapest to bring back of models that may go, and that may be drained: their number of
  // those with requests (0 or 1; 2: there are none) and log_cost().
  std::int64_t go_busy = 2, drain_busy = 2;
  double go_log = Offer::kNone, drain_log = Offer::kNone;
  std::int64_t models = INT64_MAX;  // on a slice, the fewest
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
  std::vector<bool> marked_;  // nodes that are to be renewed
  std::vector<std::size_t> renew_;
};

}  // namespace causeway::fleet
