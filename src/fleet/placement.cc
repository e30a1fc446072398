#include "fleet/placement.h"

#include <algorithm>
#include <array>
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
    return best_of(fleet, candidate, false, [&](const Placement& p) {
      const bool elsewhere = p.slice != candidate.last;
      const BackCost cost = cost_of(fleet.slice(p.slice), p);
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
    case PlacementKind::kBandwidth: return make_bandwidth_placement();
    case PlacementKind::kRandom: return std::make_unique<RandomPlacement>();
    case PlacementKind::kDedicated: return std::make_unique<DedicatedPlacement>();
    case PlacementKind::kLocality: return std::make_unique<LocalityPlacement>();
    case PlacementKind::kShared: return std::make_unique<SharedPlacement>();
  }
  return nullptr;
}

}  // namespace causeway::fleet
