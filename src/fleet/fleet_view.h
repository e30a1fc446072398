// The slices of a fleet as a placement policy sees them: the models on each slice, and their
// demands on the slice and its link. The view is updated as models come and go, so that a decision
// need not add up the fleet, and finds its slice without looking at all of them (fleet_index.h).
// Plain data and sums; not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fleet/fleet_index.h"
#include "fleet/fleet_spec.h"
#include "fleet/unload.h"

namespace causeway::fleet {

// The cost of bringing models back. First the number of them that have requests, which cost most;
// then Σ bytes × request rate, as a log_cost().
struct BackCost {
  std::int64_t busy = 0;
  double log = -std::numeric_limits<double>::infinity();

  std::partial_ordering operator<=>(const BackCost& other) const = default;
};

// A model that is on a slice, or is to come there. Models that are leaving are not in the view.
struct PlacedModel {
  ModelId model;
  Demand demand = {};
  bool may_go = false;     // it has no requests and is not pinned
  bool may_drain = false;  // it is not pinned; its running requests may end first
  Bytes bytes = {};        // that bringing it back would move
  DecayedCount rate = {};  // of its requests
  SliceId last = {};       // the slice where it was before
  std::int64_t requests = 0;

  BackCost cost() const { return {requests > 0, log_cost(bytes, rate.log_rate())}; }
};

struct SliceView {
  SliceSpec spec;
  bool up = true;
  std::vector<PlacedModel> models = {};
  // The sum of these models' demands.
  Demand sum = {};
  std::int64_t requests = 0;
  // The slice's speed: the rate at which it reads weights, because decode steps do little else.
  double speed() const {
    return spec.memory_bytes_per_second > 0 ? spec.memory_bytes_per_second : 1;
  }
  // Requests per unit of speed. Multiplied by FleetView::request_work() it is in seconds.
  double load() const { return static_cast<double>(requests) / speed(); }
};

class FleetView {
 public:
  FleetView(std::vector<SliceSpec> specs, std::vector<LinkSpec> links);

  std::int64_t size() const { return std::ssize(slices_); }
  const SliceView& slice(SliceId id) const { return slices_[static_cast<std::size_t>(id.value)]; }
  const std::vector<LinkSpec>& links() const { return links_; }
  void set_up(SliceId id, bool up);
  // Defines a slice, which may be new: it is up, with no models. The spec's link must exist.
  void set_slice(SliceId id, const SliceSpec& spec);
  // What the link gives from now on, in bytes a second.
  void set_link_rate(LinkId id, double bytes_per_second);
  // Sets the measured work of a request: seconds × SliceView::speed().
  void set_request_work(double work) { request_work_ = work; }
  double request_work() const { return request_work_; }
  // Adds the model to the slice, or updates it there.
  void put(SliceId id, const PlacedModel& model);
  // No effect when the model is not there.
  void remove(SliceId id, ModelId model);

  // By which factor the soft limits would be exceeded on the slice, without `gone` and with `more`:
  // the largest of sum ÷ limit over its link (with all slices of that link), memory and compute.
  double excess(SliceId id, std::span<const ModelId> gone, const Demand& more) const;
  // The sum of the demands on the slice, without the models `gone`.
  Demand sum(SliceId id, std::span<const ModelId> gone) const;
  // The bytes per second that are demanded of the slice's link; 0 without a link.
  double link_used(SliceId id) const;
  // The slice's share of its link while all slices copy, in bytes per second; infinity without a
  // link.
  double link_share(SliceId id) const;

  // The index, brought up to date.
  const FleetIndex& index() const;

  // For checkers: whether all sums equal those of the models; and whether a slice has the same
  // models in the same state as in another view.
  bool adds_up() const;
  bool shows(SliceId id, const FleetView& other) const;

 private:
  void add_up(SliceId id);

  std::vector<SliceView> slices_;  // by SliceId
  std::vector<LinkSpec> links_;
  // Bytes per second, as integers so that adding and subtracting is exact.
  std::vector<std::int64_t> link_used_;
  std::vector<std::vector<SliceId>> slices_of_link_;
  double request_work_ = 0;
  mutable FleetIndex index_;  // a cache of the above, brought up to date when it is asked for
};

}  // namespace causeway::fleet
