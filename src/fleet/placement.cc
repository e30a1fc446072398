#include "fleet/placement.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

namespace causeway::fleet {
namespace {

constexpr std::array<std::pair<PlacementKind, std::string_view>, 5> kNames = {{
    {PlacementKind::kBandwidth, "bandwidth"},
    {PlacementKind::kRandom, "random"},
    {PlacementKind::kDedicated, "dedicated"},
    {PlacementKind::kLocality, "locality"},
    {PlacementKind::kShared, "shared"},
}};

bool is_unfit(const Candidate& candidate, SliceId id) {
  const auto& unfit = candidate.unfit;
  return std::find(unfit.begin(), unfit.end(), id) != unfit.end();
}

bool may_go(const PlacedModel& placed, const Candidate& candidate) {
  return candidate.drains ? placed.may_drain : placed.may_go;
}

// The demand of the candidate once those have gone; nullopt: a hard limit is exceeded.
std::optional<Demand> fits_hard(const FleetView& fleet, SliceId id, std::span<const ModelId> gone,
                                const Candidate& candidate) {
  const SliceView& slice = fleet.slice(id);
  if (!slice.up || is_unfit(candidate, id)) return std::nullopt;
  const ModelSpec& model = candidate.spec;
  const auto left = std::ssize(slice.models) - std::ssize(gone);
  if (slice.spec.models_max > 0 && left >= slice.spec.models_max) return std::nullopt;
  if (slice.spec.memory == Bytes(0)) return demand_of(model, model.weights);
  const Demand others = gone.empty() ? slice.sum : fleet.sum(id, gone);
  const Bytes free = slice.spec.memory - others.memory - model.memory_min;
  if (free < Bytes(0)) return std::nullopt;
  return demand_of(model, free - others.stays);
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
    return std::tuple(a->cost(candidate.now), a->rate.last(), a->model) <
           std::tuple(b->cost(candidate.now), b->rate.last(), b->model);
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
  return victims;
}

double cost_of(const SliceView& slice, const Placement& placement, Nanos now) {
  double cost = 0;
  for (const PlacedModel& placed : slice.models) {
    const auto& victims = placement.victims;
    const bool goes = std::find(victims.begin(), victims.end(), placed.model) != victims.end();
    if (goes) cost += placed.cost(now);
  }
  return cost;
}

// The model on a slice with as few victims as the hard limits need; or, with `soft`, as the soft
// ones need too. nullopt: it cannot be.
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
  const Demand demand = *fits_hard(fleet, id, *victims, candidate);
  const double excess = fleet.excess(id, *victims, demand);
  return Placement{id, std::move(*victims), demand, excess};
}

// The best by `rank`, smaller first, of the placements of all slices.
template <typename Rank>
std::optional<Placement> best_of(const FleetView& fleet, const Candidate& candidate, bool soft,
                                 Rank rank) {
  std::optional<Placement> best;
  for (std::size_t i = 0; i < fleet.slices.size(); ++i) {
    auto placement = place_on(fleet, SliceId(static_cast<std::int64_t>(i)), candidate, soft);
    if (!placement) continue;
    if (!best || rank(*placement) < rank(*best)) best = std::move(placement);
  }
  return best;
}

class BandwidthPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    // Nothing is better than where it was, if nobody is served there and nothing has to go.
    if (candidate.last.valid() && fleet.slice(candidate.last).requests == 0) {
      Candidate gentle = candidate;
      gentle.evicts = false;
      if (auto stays = place_on(fleet, candidate.last, gentle, /*soft=*/true)) return stays;
    }
    const auto dearness = [&](const Placement& p) {
      const SliceView& slice = fleet.slice(p.slice);
      return std::tuple(p.victims.size() > 0, cost_of(slice, p, candidate.now), slice.requests > 0,
                        p.slice != candidate.last, p.excess, slice.models.size(), p.slice);
    };
    auto fitting = best_of(fleet, candidate, /*soft=*/true, dearness);
    if (fitting || !candidate.evicts) return fitting;
    return best_of(fleet, candidate, /*soft=*/false, [&](const Placement& p) {
      return std::tuple(p.excess, cost_of(fleet.slice(p.slice), p, candidate.now), p.slice);
    });
  }
};

class RandomPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    std::vector<Placement> all;
    for (std::size_t i = 0; i < fleet.slices.size(); ++i) {
      const SliceId id(static_cast<std::int64_t>(i));
      if (auto placement = place_on(fleet, id, candidate, false)) all.push_back(*placement);
    }
    if (all.empty()) return std::nullopt;
    return all[candidate.draw % all.size()];
  }
};

class DedicatedPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    Candidate gentle = candidate;
    gentle.evicts = false;
    return best_of(fleet, gentle, false, [&](const Placement& p) {
      return std::tuple(p.slice != candidate.last, p.excess, p.slice);
    });
  }
};

class LocalityPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    return best_of(fleet, candidate, false, [&](const Placement& p) {
      const bool elsewhere = p.slice != candidate.last;
      const double cost = cost_of(fleet.slice(p.slice), p, candidate.now);
      return std::tuple(p.victims.size(), elsewhere, cost, p.slice);
    });
  }
};

class SharedPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    return best_of(fleet, candidate, false, [&](const Placement& p) {
      const SliceView& slice = fleet.slice(p.slice);
      return std::tuple(slice.requests, slice.models.size(), p.slice);
    });
  }
};

}  // namespace

Result<PlacementKind> find_placement(std::string_view name) {
  std::string all;
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  return invalid_argument("no placement is named '" + std::string(name) + "'; there are " + all);
}

std::string_view name_of(PlacementKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::unique_ptr<PlacementPolicy> make_placement(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kBandwidth: return std::make_unique<BandwidthPlacement>();
    case PlacementKind::kRandom: return std::make_unique<RandomPlacement>();
    case PlacementKind::kDedicated: return std::make_unique<DedicatedPlacement>();
    case PlacementKind::kLocality: return std::make_unique<LocalityPlacement>();
    case PlacementKind::kShared: return std::make_unique<SharedPlacement>();
  }
  return nullptr;
}

}  // namespace causeway::fleet
