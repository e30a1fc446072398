#include "fleet/bandwidth_placement.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/dcheck.h"
#include "fleet/place_on.h"

namespace causeway::fleet {
namespace {

// Rank of a placement that meets all limits: when the first token comes, whether others are served
// there, whether it is elsewhere than before, excess, models there.
using FittingRank = std::tuple<double, bool, bool, double, std::int64_t, SliceId>;
// Rank of one for which models leave: what bringing these back costs, first token, excess, models.
using EvictingRank = std::tuple<BackCost, double, double, std::int64_t, SliceId>;
// Rank of one by best effort: excess, and what bringing back those that leave costs.
using BestEffortRank = std::tuple<double, BackCost, SliceId>;

// Goes down the tree to where `bound` is smallest, and leaves out what it says cannot be better
// than what was found. bound(node): the least rank that a slice below may have; nullopt: none has
// any. at(slice): its placement and rank.
template <typename Rank, typename Bound, typename At>
class Search {
 public:
  Search(const FleetIndex& index, Bound bound, At at) : index_(index), bound_(bound), at_(at) {}

  std::optional<Placement> run(std::optional<std::pair<Rank, Placement>> found = std::nullopt) {
    found_ = std::move(found);
    look(FleetIndex::kRoot, bound_(FleetIndex::kRoot));
    if (!found_) return std::nullopt;
    return std::move(found_->second);
  }

 private:
  void look(std::size_t n, const std::optional<Rank>& least) {
    if (!least || (found_ && !(*least < found_->first))) return;
    if (index_.is_leaf(n)) {
      auto one = at_(index_.first_below(n));
      if (one && (!found_ || one->first < found_->first)) found_ = std::move(one);
      return;
    }
    const std::size_t a = 2 * n, b = a + 1;
    const std::optional<Rank> of_a = bound_(a), of_b = bound_(b);
    const bool a_first = of_a && (!of_b || !(*of_b < *of_a));
    look(a_first ? a : b, a_first ? of_a : of_b);
    look(a_first ? b : a, a_first ? of_b : of_a);
  }

  const FleetIndex& index_;
  Bound bound_;
  At at_;
  std::optional<std::pair<Rank, Placement>> found_;
};

template <typename Rank, typename Bound, typename At>
std::optional<Placement> search(const FleetIndex& index, Bound bound, At at,
                                std::optional<std::pair<Rank, Placement>> found = std::nullopt) {
  return Search<Rank, Bound, At>(index, bound, at).run(std::move(found));
}

// One choice in the making.
class Choice {
 public:
  Choice(const FleetView& fleet, const Candidate& candidate)
      : fleet_(fleet),
        index_(fleet.index()),
        candidate_(candidate),
        whole_(demand_of(candidate.spec, candidate.spec.weights)) {}

  std::optional<Placement> choose() const {
    if (auto fits = fitting()) {
      CAUSEWAY_DCHECK(fits->excess <= 1 && fits->victims.empty(), "it fits a slice as that is");
      return fits;
    }
    if (!candidate_.evicts) return std::nullopt;
    if (auto evicts = evicting()) {
      CAUSEWAY_DCHECK(evicts->excess <= 1, "others give way so that all limits are met");
      return evicts;
    }
    return best_effort();
  }

 private:
  // No slice below, with what it offers, has less excess; nullopt: none can be chosen.
  std::optional<double> excess(const IndexNode& node, const Offer& offer) const {
    const std::int64_t least = candidate_.spec.memory_min.count;
    if (offer.free < least || offer.places < 1) return std::nullopt;
    double link = whole_.link_bytes_per_second;
    const std::int64_t room = candidate_.time_shared ? offer.free : offer.room;
    if (room != INT64_MAX && room - least < candidate_.spec.weights.count) {
      link = demand_of(candidate_.spec, Bytes(room - least)).link_bytes_per_second;
    }
    return std::max({(link + offer.link) / node.link_max,
                     (offer.memory_rate + whole_.memory_bytes_per_second) / node.memory_rate_max,
                     (offer.flops + whole_.flops_per_second) / node.flops_max});
  }

  // On no slice below, but the one where it was, does the first token come sooner.
  double soonest(const IndexNode& node) const {
    const Bytes crosses = candidate_.spec.weights + lacks_beside(candidate_, node.now.room);
    return node.load * fleet_.request_work() +
           static_cast<double>(crosses.count) / node.link_share_max;
  }

  std::optional<Placement> fitting() const;
  std::optional<Placement> evicting() const;
  std::optional<Placement> best_effort() const;

  const FleetView& fleet_;
  const FleetIndex& index_;
  const Candidate& candidate_;
  const Demand whole_;  // where all its weights stay
};

// A slice that meets all limits as it is. The one where it was is looked at first: bounds are those
// of the others.
std::optional<Placement> Choice::fitting() const {
  const auto bound = [&](std::size_t n) -> std::optional<FittingRank> {
    const IndexNode& node = index_.node(n);
    const auto least = excess(node, node.now);
    if (!least || *least > 1) return std::nullopt;
    return FittingRank{soonest(node), /*busy=*/false, /*elsewhere=*/true,
                       *least,        node.models,    index_.first_below(n)};
  };
  const auto at = [&](SliceId id) -> std::optional<std::pair<FittingRank, Placement>> {
    const auto demand = fits_hard(fleet_, id, {}, candidate_);
    if (!demand) return std::nullopt;
    const double excess = fleet_.excess(id, {}, *demand);
    if (excess > 1) return std::nullopt;
    const SliceView& slice = fleet_.slice(id);
    const FittingRank rank{first_token(fleet_, candidate_, id),
                           slice.requests > 0,
                           id != candidate_.last,
                           excess,
                           std::ssize(slice.models),
                           id};
    return std::pair(rank, Placement{id, {}, *demand, excess});
  };
  const SliceId last = candidate_.last;
  return search<FittingRank>(index_, bound, at, last.valid() ? at(last) : std::nullopt);
}

// No slice meets all limits as it is: one that does when others have gone.
std::optional<Placement> Choice::evicting() const {
  const bool drains = candidate_.drains;
  const auto bound = [&](std::size_t n) -> std::optional<EvictingRank> {
    const IndexNode& node = index_.node(n);
    const BackCost cost{drains ? node.drain_busy : node.go_busy,
                        drains ? node.drain_log : node.go_log};
    if (cost.busy > 1) return std::nullopt;
    const auto least = excess(node, drains ? node.drained : node.gone);
    if (!least || *least > 1) return std::nullopt;
    return EvictingRank{cost, soonest(node), *least, node.models, index_.first_below(n)};
  };
  const auto at = [&](SliceId id) -> std::optional<std::pair<EvictingRank, Placement>> {
    auto placement = place_on(fleet_, id, candidate_, /*soft=*/true);
    if (!placement) return std::nullopt;
    const SliceView& slice = fleet_.slice(id);
    const EvictingRank rank{cost_of(slice, *placement), first_token(fleet_, candidate_, id),
                            placement->excess, std::ssize(slice.models), id};
    return std::pair(rank, std::move(*placement));
  };
  const SliceId last = candidate_.last;
  return search<EvictingRank>(index_, bound, at, last.valid() ? at(last) : std::nullopt);
}

// No slice meets all limits: the hard ones, and the soft ones as far as may be.
std::optional<Placement> Choice::best_effort() const {
  const std::int64_t memory = candidate_.spec.memory_min.count;
  const auto bound = [&](std::size_t n) -> std::optional<BestEffortRank> {
    const IndexNode& node = index_.node(n);
    std::optional<double> least = excess(node, node.now);
    // Something has to go from those that lack memory or a place, and from no others.
    if (node.free_least < memory || node.places_least < 1) {
      const auto without = excess(node, candidate_.drains ? node.drained : node.gone);
      if (without) least = std::min(least.value_or(*without), *without);
    }
    if (!least) return std::nullopt;
    return BestEffortRank{*least, BackCost(), index_.first_below(n)};
  };
  const auto at = [&](SliceId id) -> std::optional<std::pair<BestEffortRank, Placement>> {
    auto placement = place_on(fleet_, id, candidate_, /*soft=*/false);
    if (!placement) return std::nullopt;
    const BestEffortRank rank{placement->excess, cost_of(fleet_.slice(id), *placement), id};
    return std::pair(rank, std::move(*placement));
  };
  return search<BestEffortRank>(index_, bound, at);
}

class BandwidthPlacement final : public PlacementPolicy {
 public:
  std::optional<Placement> choose(const FleetView& fleet,
                                  const Candidate& candidate) const override {
    return Choice(fleet, candidate).choose();
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_bandwidth_placement() {
  return std::make_unique<BandwidthPlacement>();
}

}  // namespace causeway::fleet
