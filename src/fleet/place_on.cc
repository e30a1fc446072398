#include "fleet/place_on.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

bool is_unfit(const Candidate& candidate, SliceId id) {
  const auto& unfit = candidate.unfit;
  return std::find(unfit.begin(), unfit.end(), id) != unfit.end();
}

bool may_go(const PlacedModel& placed, const Candidate& candidate) {
  return candidate.drains ? placed.may_drain : placed.may_go;
}

template <typename Enough>
std::optional<std::vector<ModelId>> cheapest_victims(const SliceView& slice,
                                                     const Candidate& candidate, Enough enough) {
  std::vector<ModelId> victims;
  if (enough(victims)) return victims;
  std::vector<const PlacedModel*> all;
  for (const PlacedModel& placed : slice.models) {
    if (may_go(placed, candidate)) all.push_back(&placed);
  }
  std::sort(all.begin(), all.end(), [&](const PlacedModel* a, const PlacedModel* b) {
    return std::tuple(a->cost(), a->rate.last(), a->model) <
           std::tuple(b->cost(), b->rate.last(), b->model);
  });
  for (std::size_t next = 0; !enough(victims); ++next) {
    if (next == all.size()) return std::nullopt;
    victims.push_back(all[next]->model);
  }
  for (std::size_t i = victims.size(); i-- > 0;) {
    std::vector<ModelId> fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (enough(fewer)) victims = std::move(fewer);
  }
  CAUSEWAY_DCHECK(enough(victims), "those that are not spared suffice");
  return victims;
}

bool goes(const Placement& placement, const PlacedModel& placed) {
  const auto& victims = placement.victims;
  return std::find(victims.begin(), victims.end(), placed.model) != victims.end();
}

}  // namespace

std::optional<Demand> fits_hard(const FleetView& fleet, SliceId id, std::span<const ModelId> gone,
                                const Candidate& candidate) {
  const SliceView& slice = fleet.slice(id);
  if (!slice.up || is_unfit(candidate, id)) return std::nullopt;
  const ModelSpec& model = candidate.spec;
  const auto left = std::ssize(slice.models) - std::ssize(gone);
  CAUSEWAY_DCHECK(left >= 0, "only models of the slice go");
  if (slice.spec.models_max > 0 && left >= slice.spec.models_max) return std::nullopt;
  if (slice.spec.memory == Bytes(0)) return demand_of(model, model.weights);
  const Demand others = gone.empty() ? slice.sum : fleet.sum(id, gone);
  const Bytes free = slice.spec.memory - others.memory - model.memory_min;
  if (free < Bytes(0)) return std::nullopt;
  return demand_of(model, candidate.time_shared ? free : free - others.stays);
}

Bytes lacks_beside(const Candidate& candidate, std::int64_t room) {
  if (!candidate.time_shared) return Bytes(0);
  const Bytes left = Bytes(room) - candidate.spec.memory_min;
  return std::max(Bytes(0), candidate.spec.weights - left);
}

double first_token(const FleetView& fleet, const Candidate& candidate, SliceId id) {
  const SliceView& slice = fleet.slice(id);
  Bytes crosses = id == candidate.last ? Bytes(0) : candidate.spec.weights;
  if (slice.spec.memory > Bytes(0)) {
    const Bytes room = slice.spec.memory - slice.sum.memory - slice.sum.stays;
    crosses += lacks_beside(candidate, room.count);
  }
  return slice.load() * fleet.request_work() +
         static_cast<double>(crosses.count) / fleet.link_share(id);
}

std::optional<Placement> place_on(const FleetView& fleet, SliceId id, const Candidate& candidate,
                                  bool soft) {
  const auto enough = [&](std::span<const ModelId> victims) {
    const auto demand = fits_hard(fleet, id, victims, candidate);
    return demand && (!soft || fleet.excess(id, victims, *demand) <= 1);
  };
  std::optional<std::vector<ModelId>> victims;
  if (candidate.evicts) {
    victims = cheapest_victims(fleet.slice(id), candidate, enough);
  } else if (enough({})) {
    victims.emplace();
  }
  if (!victims) return std::nullopt;
  CAUSEWAY_DCHECK(candidate.evicts || victims->empty(),
                  "a model that may not evict has no victims");
  const Demand demand = *fits_hard(fleet, id, *victims, candidate);
  const double excess = fleet.excess(id, *victims, demand);
  return Placement{id, std::move(*victims), demand, excess};
}

// Σ exp(log), in parts of the largest: of one victim it is its own to the last bit, of several no
// less than any.
BackCost cost_of(const SliceView& slice, const Placement& placement) {
  BackCost cost;
  if (placement.victims.empty()) return cost;
  for (const PlacedModel& placed : slice.models) {
    if (goes(placement, placed)) cost.log = std::max(cost.log, placed.cost().log);
  }
  double parts = 0;
  for (const PlacedModel& placed : slice.models) {
    if (!goes(placement, placed)) continue;
    const BackCost one = placed.cost();
    cost.busy += one.busy;
    parts += std::isinf(cost.log) ? 1 : std::exp(one.log - cost.log);
  }
  CAUSEWAY_DCHECK(parts >= 1, "the dearest victim counts as one");
  cost.log += std::log(parts);
  return cost;
}

}  // namespace causeway::fleet
