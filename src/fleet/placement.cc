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

bool is_in(std::span<const ModelId> models, ModelId model) {
  return std::find(models.begin(), models.end(), model) != models.end();
}

Demand sum_of(const SliceView& slice, std::span<const ModelId> gone) {
  Demand sum;
  for (const PlacedModel& placed : slice.models) {
    if (!is_in(gone, placed.model)) sum += placed.demand;
  }
  return sum;
}

double share(double sum, double limit) { return limit > 0 ? sum / limit : 0; }

// The demand of the candidate once those have gone; nullopt: a hard limit is exceeded.
std::optional<Demand> fits_hard(const SliceView& slice, std::span<const ModelId> gone,
                                const ModelSpec& model) {
  if (!slice.up) return std::nullopt;
  const auto left = std::ssize(slice.models) - std::ssize(gone);
  if (slice.spec.models_max > 0 && left >= slice.spec.models_max) return std::nullopt;
  if (slice.spec.memory == Bytes(0)) return demand_of(model, model.weights);
  const Demand others = sum_of(slice, gone);
  const Bytes free = slice.spec.memory - others.memory - model.memory_min;
  if (free < Bytes(0)) return std::nullopt;
  return demand_of(model, free - others.stays);
}

// Of models that may go, the cheapest first, until `enough` holds; then without those that the
// others can do without. nullopt: it never holds.
template <typename Enough>
std::optional<std::vector<ModelId>> cheapest_victims(const SliceView& slice, Enough enough) {
  std::vector<const PlacedModel*> may_go;
  for (const PlacedModel& placed : slice.models) {
    if (placed.may_go) may_go.push_back(&placed);
  }
  std::sort(may_go.begin(), may_go.end(), [](const PlacedModel* a, const PlacedModel* b) {
    return std::tuple(a->cost, a->last_used, a->model) <
           std::tuple(b->cost, b->last_used, b->model);
  });
  std::vector<ModelId> victims;
  for (std::size_t next = 0; !enough(victims); ++next) {
    if (next == may_go.size()) return std::nullopt;
    victims.push_back(may_go[next]->model);
  }
  for (std::size_t i = victims.size(); i-- > 0;) {
    std::vector<ModelId> fewer = victims;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (enough(fewer)) victims = std::move(fewer);
  }
  return victims;
}

double cost_of(const SliceView& slice, std::span<const ModelId> victims) {
  double cost = 0;
  for (const PlacedModel& placed : slice.models) {
    if (is_in(victims, placed.model)) cost += placed.cost;
  }
  return cost;
}

std::int64_t requests_on(const SliceView& slice) {
  std::int64_t requests = 0;
  for (const PlacedModel& placed : slice.models) requests += placed.requests;
  return requests;
}

// The model on slice `index` with as few victims as the hard limits need; or, with `soft`, as the
// soft ones need too. nullopt: it cannot be.
std::optional<Placement> place_on(const FleetView& fleet, std::size_t index,
                                  const Candidate& candidate, bool soft) {
  const SliceView& slice = fleet.slices[index];
  const SliceId id(static_cast<std::int64_t>(index));
  const auto enough = [&](std::span<const ModelId> victims) {
    const auto demand = fits_hard(slice, victims, candidate.spec);
    return demand && (!soft || excess_of(fleet, id, victims, *demand) <= 1);
  };
  std::optional<std::vector<ModelId>> victims;
  if (candidate.evicts) {
    victims = cheapest_victims(slice, enough);
  } else if (enough({})) {
    victims.emplace();
  }
  if (!victims) return std::nullopt;
  const Demand demand = *fits_hard(slice, *victims, candidate.spec);
  const double excess = excess_of(fleet, id, *victims, demand);
  return Placement{id, std::move(*victims), demand, excess};
}

// The best by `rank`, smaller first, of the placements of all slices.
template <typename Rank>
std::optional<Placement> best_of(const FleetView& fleet, const Candidate& candidate, bool soft,
                                 Rank rank) {
  std::optional<Placement> best;
  for (std::size_t i = 0; i < fleet.slices.size(); ++i) {
    auto placement = place_on(fleet, i, candidate, soft);
    if (!placement) continue;
    if (!best || rank(*placement) < rank(*best)) best = std::move(placement);
  }
  return best;
}

const SliceView& slice_of(const FleetView& fleet, const Placement& placement) {
  return fleet.slices[static_cast<std::size_t>(placement.slice.value)];
}

class BandwidthPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    const auto dearness = [&](const Placement& p) {
      const SliceView& slice = slice_of(fleet, p);
      const bool shared = requests_on(slice) > 0, elsewhere = p.slice != candidate.last;
      return std::tuple(p.victims.size() > 0, cost_of(slice, p.victims), shared, elsewhere,
                        p.excess, slice.models.size(), p.slice);
    };
    auto fitting = best_of(fleet, candidate, /*soft=*/true, dearness);
    if (fitting || !candidate.evicts) return fitting;
    return best_of(fleet, candidate, /*soft=*/false, [&](const Placement& p) {
      return std::tuple(p.excess, cost_of(slice_of(fleet, p), p.victims), p.slice);
    });
  }
};

class RandomPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    std::vector<Placement> all;
    for (std::size_t i = 0; i < fleet.slices.size(); ++i) {
      if (auto placement = place_on(fleet, i, candidate, false)) all.push_back(*placement);
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
    return best_of(fleet, gentle, false,
                   [&](const Placement& p) {
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
      return std::tuple(p.victims.size(), elsewhere, cost_of(slice_of(fleet, p), p.victims),
                        p.slice);
    });
  }
};

class SharedPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    return best_of(fleet, candidate, false, [&](const Placement& p) {
      return std::tuple(requests_on(slice_of(fleet, p)), slice_of(fleet, p).models.size(), p.slice);
    });
  }
};

}  // namespace

double excess_of(const FleetView& fleet, SliceId id, std::span<const ModelId> gone,
                 const Demand& more) {
  const SliceView& slice = fleet.slices[static_cast<std::size_t>(id.value)];
  Demand own = sum_of(slice, gone);
  own += more;
  double link = more.link_bytes_per_second, rate = 0;
  if (slice.spec.link.valid()) {
    rate = fleet.links[static_cast<std::size_t>(slice.spec.link.value)].bytes_per_second;
    for (const SliceView& other : fleet.slices) {
      if (other.spec.link == slice.spec.link) link += sum_of(other, gone).link_bytes_per_second;
    }
  }
  return std::max({share(link, rate),
                   share(own.memory_bytes_per_second, slice.spec.memory_bytes_per_second),
                   share(own.flops_per_second, slice.spec.flops_per_second)});
}

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
