#include "fleet/placement.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "fleet/bandwidth_placement.h"
#include "fleet/place_on.h"

namespace causeway::fleet {
namespace {

constexpr std::array<std::pair<PlacementKind, std::string_view>, 5> kNames = {{
    {PlacementKind::kBandwidth, "bandwidth"},
    {PlacementKind::kRandom, "random"},
    {PlacementKind::kDedicated, "dedicated"},
    {PlacementKind::kLocality, "locality"},
    {PlacementKind::kShared, "shared"},
}};
static_assert(kNames.size() == static_cast<std::size_t>(PlacementKind::kShared) + 1,
              "every kind has a name");

// Baselines: they look at all slices.

class RandomPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    std::vector<Placement> all;
    for (std::int64_t i = 0; i < fleet.size(); ++i) {
      if (auto placement = place_on(fleet, SliceId(i), candidate, false)) all.push_back(*placement);
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
    auto local = best_of(fleet, candidate, false, [&](const Placement& p) {
      const SliceView& slice = fleet.slice(p.slice);
      const bool elsewhere = p.slice != candidate.last;
      return std::tuple(p.victims.size(), elsewhere, cost_of(slice, p), slice.requests,
                        slice.models.size(), p.slice);
    });
    if (!local || !candidate.time_shared || !candidate.evicts) return local;
    return clear(fleet, candidate, std::move(*local));
  }

 private:
  struct Clearing {
    std::vector<Migration> migrations;
    Bytes moved;  // weights that come to other slices for it
  };

  // Where others run there: they go to slices that are idle, or the candidate does, whichever moves
  // fewer bytes. Without such slices they are time-shared.
  static std::optional<Placement> clear(const FleetView& fleet, const Candidate& candidate,
                                        Placement local) {
    if (fleet.slice(local.slice).requests == 0) return local;
    auto clearing = others_go(fleet, candidate, local.slice);
    if (clearing && clearing->moved < candidate.spec.weights) {
      local.migrations = std::move(clearing->migrations);
      return local;
    }
    auto idle = best_of(fleet, candidate, false, [&](const Placement& p) {
      return std::tuple(fleet.slice(p.slice).requests, p.victims.size(), p.slice);
    });
    const bool moves = idle && fleet.slice(idle->slice).requests == 0;
    return moves ? std::move(idle) : std::move(local);
  }

  // nullopt: there are not as many idle slices as models.
  static std::optional<Clearing> others_go(const FleetView& fleet, const Candidate& candidate,
                                           SliceId from) {
    Clearing clearing;
    std::set<SliceId> taken;
    for (const PlacedModel& other : fleet.slice(from).models) {
      if (other.requests == 0 || other.model == candidate.model) continue;
      std::optional<SliceId> to;
      for (std::int64_t i = 0; i < fleet.size() && to != other.last; ++i) {
        const SliceId id(i);
        if (!taken.contains(id) && is_idle(fleet, id, other) && (!to || id == other.last)) to = id;
      }
      if (!to) return std::nullopt;
      taken.insert(*to);
      clearing.migrations.push_back({other.model, *to});
      if (*to != other.last) clearing.moved += other.bytes;
    }
    return clearing;
  }

  static bool is_idle(const FleetView& fleet, SliceId id, const PlacedModel& model) {
    const SliceView& slice = fleet.slice(id);
    const bool fits = slice.spec.memory == Bytes(0) || model.demand.memory <= slice.spec.memory;
    return slice.up && slice.requests == 0 && slice.models.empty() && fits;
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
    case PlacementKind::kBandwidth: return make_bandwidth_placement();
    case PlacementKind::kRandom: return std::make_unique<RandomPlacement>();
    case PlacementKind::kDedicated: return std::make_unique<DedicatedPlacement>();
    case PlacementKind::kLocality: return std::make_unique<LocalityPlacement>();
    case PlacementKind::kShared: return std::make_unique<SharedPlacement>();
  }
  return nullptr;
}

}  // namespace causeway::fleet
