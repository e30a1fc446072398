// How a link map is measured: which sets to probe, given what the probes before gave. Pure but for
// the prober.
#include <algorithm>
#include <map>

#include "base/dcheck.h"
#include "base/quantile.h"
#include "transfer/link_map.h"

namespace causeway::transfer {
namespace {

class Survey {
 public:
  Survey(LinkProber& prober, const LinkMapOptions& options, Direction direction)
      : prober_(prober), options_(options), direction_(direction), links_(prober.links()) {}

  Status run() {
    CAUSEWAY_TRY(probe_singles());
    if (links_ == 1) return {};
    CAUSEWAY_TRY(grow(LinkSet::of(fastest_)));
    for (int link = 0; link < links_; ++link) CAUSEWAY_TRY(grow(LinkSet::of(link)));
    return shrink(LinkSet::first(links_));
  }

  // Measures the best few sets for a target through relays. The own links of other GPUs count as
  // relays.
  Result<std::vector<RelayRate>> relayed(int target) {
    LinkSet reach = LinkSet::of(target);
    for (int link = 0; link < links_; ++link) {
      if (link != target && can_pass_on(link, target)) reach = reach.with(link);
    }
    std::vector<std::pair<double, LinkSet>> candidates;
    for (const auto& [links, rate] : rates_) {
      if ((links & reach) == links) candidates.emplace_back(rate, links);
    }
    std::sort(candidates.rbegin(), candidates.rend());
    std::vector<RelayRate> rates;
    std::map<LinkSet, bool> seen;
    for (const auto& [rate, links] : candidates) {
      if (std::ssize(rates) >= 2 * options_.relayed_sets) break;
      for (const LinkSet set : {links, links.with(target)}) {
        if (!seen.emplace(set, true).second) continue;
        CAUSEWAY_ASSIGN(const double measured, median_rate(set, target));
        rates.push_back({target, set, measured});
      }
    }
    return rates;
  }

  std::vector<SetRate> rates() const {
    std::vector<SetRate> rates;
    for (const auto& [links, rate] : rates_) rates.push_back({links, rate});
    return rates;
  }

 private:
  bool can_pass_on(int link, int target) const {
    return direction_ == Direction::kIn ? prober_.can_copy(link, target)
                                        : prober_.can_copy(target, link);
  }

  Result<double> median_rate(LinkSet links, std::optional<int> target) {
    std::vector<double> rates;
    for (int run = 0; run < options_.runs; ++run) {
      CAUSEWAY_ASSIGN(const double rate, prober_.rate(direction_, links, target));
      CAUSEWAY_DCHECK(rate >= 0, "what was measured is no rate");
      rates.push_back(rate);
    }
    return median(std::move(rates));
  }

  Result<double> rate_of(LinkSet links) {
    const auto found = rates_.find(links);
    if (found != rates_.end()) return found->second;
    CAUSEWAY_ASSIGN(const double rate, median_rate(links, std::nullopt));
    rates_.emplace(links, rate);
    return rate;
  }

  Status probe_singles() {
    double most = 0;
    for (int link = 0; link < links_; ++link) {
      CAUSEWAY_ASSIGN(const double rate, rate_of(LinkSet::of(link)));
      if (rate <= most) continue;
      most = rate;
      fastest_ = link;
    }
    return {};
  }

  // Adds the link that gains most, as long as one gains.
  Status grow(LinkSet links) {
    return climb(links, [](LinkSet set, int link) { return set.has(link) ? set : set.with(link); });
  }
  // Removes the link whose removal gains most, as long as one gains.
  Status shrink(LinkSet links) {
    return climb(links, [](LinkSet set, int link) {
      return set.has(link) && set.count() > 1 ? set.without(link) : set;
    });
  }

  template <typename Change>
  Status climb(LinkSet links, Change change) {
    CAUSEWAY_ASSIGN(double rate, rate_of(links));
    while (true) {
      LinkSet best = links;
      double best_rate = 0;
      for (int link = 0; link < links_; ++link) {
        const LinkSet next = change(links, link);
        if (next == links) continue;
        CAUSEWAY_ASSIGN(const double next_rate, rate_of(next));
        if (next_rate <= best_rate) continue;
        best = next;
        best_rate = next_rate;
      }
      if (best == links) return {};
      // Fewer links are better at the same rate; more links must pay.
      const bool fewer = best.count() < links.count();
      if (best_rate < rate * (fewer ? 2 - options_.worth : options_.worth)) return {};
      CAUSEWAY_DCHECK(!best.empty(), "a set without a link");
      links = best;
      rate = std::max(rate, best_rate);
    }
  }

  LinkProber& prober_;
  const LinkMapOptions options_;
  const Direction direction_;
  const int links_;
  int fastest_ = 0;
  std::map<LinkSet, double> rates_;
};

}  // namespace

Result<LinkMap> measure_link_map(const std::string& machine, LinkProber& prober,
                                 const LinkMapOptions& options) {
  CAUSEWAY_CHECK(options.runs >= 1 && options.relayed_sets >= 1 && options.worth >= 1);
  LinkMap map;
  map.machine = machine;
  map.links = prober.links();
  for (int link = 0; link < map.links; ++link) {
    CAUSEWAY_ASSIGN(const double rate, prober.duplex_rate(link));
    map.duplex.push_back(rate);
    for (int target = 0; target < map.links; ++target) {
      if (target == link || !prober.can_copy(link, target)) continue;
      CAUSEWAY_ASSIGN(const double peer, prober.peer_rate(link, target));
      map.peers.push_back({link, target, peer});
    }
  }
  for (const Direction direction : kBothDirections) {
    Survey survey(prober, options, direction);
    CAUSEWAY_TRY(survey.run());
    map.own[index_of(direction)] = survey.rates();
    for (int target = 0; target < map.links && map.links > 1; ++target) {
      CAUSEWAY_ASSIGN(const auto rates, survey.relayed(target));
      auto& relayed = map.relayed[index_of(direction)];
      relayed.insert(relayed.end(), rates.begin(), rates.end());
    }
  }
  CAUSEWAY_TRY(check(map));
  return map;
}

}  // namespace causeway::transfer
