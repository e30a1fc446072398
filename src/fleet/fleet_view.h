// The slices of a fleet as a placement policy sees them: what is on each, and what that asks of it
// and of its link. Kept up as models come and go, so that a decision does not add up the fleet, and
// finds its slice without looking at all of them (fleet_index.h). Plain data and sums; not
// thread-safe.
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

// The cost of bringing models back: how many of them have requests, which are the dearest; then Σ
// bytes × rate of their requests, as log_cost() has it.
struct BackCost {
  std::int64_t busy = 0;
  double log = -std::numeric_limits<double>::infinity();

  std::partial_ordering operator<=>(const BackCost& other) const = default;
};

// A model that is on a slice, or is to come there. Those that leave are not shown.
struct PlacedModel {
  ModelId model;
  Demand demand = {};
  bool may_go = false;     // nothing asks for it, and it is not pinned
  bool may_drain = false;  // it is not pinned: what runs may be ended first
  Bytes bytes = {};        // that bringing it back would move
  DecayedCount rate = {};  // of its requests
  SliceId last = {};       // where it was before
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
  // How fast the slice is: how fast it reads weights, since steps that decode do nothing else for
  // most of their time.
  double speed() const {
    return spec.memory_bytes_per_second > 0 ? spec.memory_bytes_per_second : 1;
  }
  // Requests for each unit of speed: times FleetView::request_work() it is in seconds.
  double load() const { return static_cast<double>(requests) / speed(); }
};

class FleetView {
 public:
  FleetView(std::vector<SliceSpec> specs, std::vector<LinkSpec> links);

  std::int64_t size() const { return std::ssize(slices_); }
  const SliceView& slice(SliceId id) const { return slices_[static_cast<std::size_t>(id.value)]; }
  const std::vector<LinkSpec>& links() const { return links_; }
  void set_up(SliceId id, bool up);
  // The slice is another one, or the next one, and up. Nothing is on it; its link is known.
  void set_slice(SliceId id, const SliceSpec& spec);
  // Sets how much work a request is on a slice, as measured: seconds × SliceView::speed().
  void set_request_work(double work) { request_work_ = work; }
  double request_work() const { return request_work_; }
  // The model is there, as it is now.
  void put(SliceId id, const PlacedModel& model);
  // No effect if it is not there.
  void remove(SliceId id, ModelId model);

  // By which factor the soft limits would be exceeded on the slice, without `gone` and with `more`:
  // the largest of sum ÷ limit over its link (with all slices of that link), memory and compute.
  double excess(SliceId id, std::span<const ModelId> gone, const Demand& more) const;
  // The sum of the demands on the slice, without `gone`.
  Demand sum(SliceId id, std::span<const ModelId> gone) const;
  // How much of the slice's link is used; 0 where it has none.
  double link_used(SliceId id) const;
  // Each slice's share of the link while all copy, bytes a second; infinity: it has no link.
  double link_share(SliceId id) const;

  // Brought up to what is there now.
  const FleetIndex& index() const;

  // For checkers: whether all sums are those of the models; and whether a slice has the same models
  // in the same state as in another view.
  bool adds_up() const;
  bool shows(SliceId id, const FleetView& other) const;

 private:
  void add_up(SliceId id);

  std::vector<SliceView> slices_;  // by SliceId
  std::vector<LinkSpec> links_;
  std::vector<std::int64_t> link_used_;  // bytes a second, whole: they are added and taken away
  std::vector<std::vector<SliceId>> slices_of_link_;
  double request_work_ = 0;
  mutable FleetIndex index_;  // a cache of the above, brought up when it is asked for
};

}  // namespace causeway::fleet
