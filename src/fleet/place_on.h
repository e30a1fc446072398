// Placing a model on one given slice: which models have to leave it, and what is left then. All
// placement policies are built from these functions. Internal to this room.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "fleet/placement.h"

namespace causeway::fleet {

// The demand of the candidate on the slice once the models `gone` have left; nullopt: a hard limit
// is exceeded.
std::optional<Demand> fits_hard(const FleetView& fleet, SliceId id, std::span<const ModelId> gone,
                                const Candidate& candidate);

// Places the candidate on the slice with as few victims as the hard limits need; with `soft`, as
// the soft limits need, too. nullopt: it is not possible.
std::optional<Placement> place_on(const FleetView& fleet, SliceId id, const Candidate& candidate,
                                  bool soft);

// The bytes of the candidate's weights that do not fit beside the weights of other models, on
// slices with at most `room` bytes for weights (Offer::room); 0 when models are not time-shared.
Bytes lacks_beside(const Candidate& candidate, std::int64_t room);

// The predicted time to a first token that is asked for now, in seconds: the work queued on the
// slice, then the bytes that must cross the link first, at the slice's share of the link. These are
// the model's weights, unless it was on the slice before, and weights of others that do not fit
// beside them.
double first_token(const FleetView& fleet, const Candidate& candidate, SliceId id);

// The cost of bringing the placement's victims back.
BackCost cost_of(const SliceView& slice, const Placement& placement);

// The placement with the smallest `rank` among those of all slices.
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
