// The slices of a fleet as a placement policy sees them: what is on each, and what that asks of it
// and of its link. Kept up as models come and go, so that a decision does not add up the fleet.
// Plain data and sums; not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "fleet/fleet_spec.h"
#include "fleet/unload.h"

namespace causeway::fleet {

// A model that is on a slice, or is to come there. Those that leave are not shown.
struct PlacedModel {
  ModelId model;
  Demand demand = {};
  bool may_go = false;     // nothing asks for it, and it is not pinned
  bool may_drain = false;  // it is not pinned: what runs may be ended first
  Bytes bytes = {};        // that bringing it back would move
  DecayedCount rate = {};  // of its requests
  std::int64_t requests = 0;

  // Of bringing it back: bytes × rate of its requests; those with requests are dearest.
  double cost(Nanos now) const;
};

struct SliceView {
  SliceSpec spec;
  bool up = true;
  std::vector<PlacedModel> models = {};
  // Of these models.
  Demand sum = {};
  std::int64_t requests = 0;
};

class FleetView {
 public:
  FleetView(std::vector<SliceSpec> specs, std::vector<LinkSpec> links_in);

  std::vector<SliceView> slices;  // by SliceId; what is on them changes by put() and remove()
  std::vector<LinkSpec> links;

  const SliceView& slice(SliceId id) const { return slices[static_cast<std::size_t>(id.value)]; }
  // The model is there, as it is now.
  void put(SliceId id, const PlacedModel& model);
  // No effect if it is not there.
  void remove(SliceId id, ModelId model);
  // Slices on which no request runs or waits.
  const std::set<SliceId>& idle() const { return idle_; }

  // By how much the soft limits would be exceeded on the slice, without `gone` and with `more`: the
  // largest of sum ÷ limit over its link (with all slices of that link), memory and compute.
  double excess(SliceId id, std::span<const ModelId> gone, const Demand& more) const;
  // Of what is on the slice, without `gone`.
  Demand sum(SliceId id, std::span<const ModelId> gone) const;

  // For checkers: whether all sums are those of the models, and whether a slice has the same models
  // in the same state as another view has it.
  bool adds_up() const;
  bool shows(SliceId id, const FleetView& other) const;

 private:
  void add_up(SliceId id);

  std::vector<std::int64_t> link_used_;  // bytes a second, whole: they are added and taken away
  std::set<SliceId> idle_;
};

}  // namespace causeway::fleet
