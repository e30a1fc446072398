// Placements of a model on one slice: which models have to go there, and what that leaves. All
// placement policies are made of these. Internal to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "fleet/placement.h"

namespace causeway::fleet {

// The demand of the candidate once those have gone; nullopt: a hard limit is exceeded.
std::optional<Demand> fits_hard(const FleetView& fleet, SliceId id, std::span<const ModelId> gone,
                                const Candidate& candidate);

// The model on a slice with as few victims as the hard limits need; or, with `soft`, as the soft
// ones need too. nullopt: it cannot be.
std::optional<Placement> place_on(const FleetView& fleet, SliceId id, const Candidate& candidate,
                                  bool soft);

// What it lacks beside those that are there, of slices with `room` for weights at the most
// (Offer::room); 0 where models are not time-shared.
Bytes lacks_beside(const Candidate& candidate, std::int64_t room);

// How long the first token takes that is asked for now, in seconds: the work that is ahead, then
// what crosses the link first, at the slice's share of it: the model's weights where it was not
// before, and those of others that do not fit beside it.
double first_token(const FleetView& fleet, const Candidate& candidate, SliceId id);

// The cost of bringing the placement's victims back.
BackCost cost_of(const SliceView& slice, const Placement& placement);

// The best by `rank`, smaller first, of the placements of all slices.
template <typename Rank>
std::optional<Placement> best_of(const FleetView& fleet, const Candidate& candidate, bool soft,
                                 Rank rank) {
  std::optional<Placement> best;
  for (std::int64_t i = 0; i < fleet.size(); ++i) {
    auto placement = place_on(fleet, SliceId(i), candidate, soft);
    if (!placement) continue;
    if (!best || rank(*placement) < rank(*best)) best = std::move(placement);
  }
  return best;
}

}  // namespace causeway::fleet
