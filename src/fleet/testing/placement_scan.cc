#include "fleet/testing/placement_scan.h"

#include <tuple>

#include "base/check.h"
#include "fleet/place_on.h"

namespace causeway::fleet::testing {
namespace {

class Scan final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    const auto dearness = [&](const Placement& p) {
      const SliceView& slice = fleet.slice(p.slice);
      const bool evicts = !p.victims.empty();
      return std::tuple(evicts, cost_of(slice, p), first_token(fleet, candidate, p.slice),
                        !evicts && slice.requests > 0, !evicts && p.slice != candidate.last,
                        p.excess, slice.models.size(), p.slice);
    };
    auto fitting = best_of(fleet, candidate, /*soft=*/true, dearness);
    if (fitting || !candidate.evicts) return fitting;
    return best_of(fleet, candidate, /*soft=*/false, [&](const Placement& p) {
      return std::tuple(p.excess, cost_of(fleet.slice(p.slice), p), p.slice);
    });
  }
};

class Compared final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    auto found = search_->choose(fleet, candidate);
    const auto scanned = scan_->choose(fleet, candidate);
    CAUSEWAY_CHECK(found.has_value() == scanned.has_value(),
                   "the search finds a place where the scan finds none, or none where it does");
    if (!found) return found;
    CAUSEWAY_CHECK(found->slice == scanned->slice && found->victims == scanned->victims,
                   "the search chooses another place than the scan");
    CAUSEWAY_CHECK(
        found->excess == scanned->excess && found->demand.crosses == scanned->demand.crosses,
        "the search predicts otherwise than the scan");
    return found;
  }

 private:
  const std::unique_ptr<PlacementPolicy> search_ = make_placement(PlacementKind::kBandwidth);
  const std::unique_ptr<PlacementPolicy> scan_ = make_placement_scan();
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_placement_scan() { return std::make_unique<Scan>(); }
std::unique_ptr<PlacementPolicy> make_compared_placement() { return std::make_unique<Compared>(); }

}  // namespace causeway::fleet::testing
