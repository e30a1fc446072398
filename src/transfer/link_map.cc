#include "transfer/link_map.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/dcheck.h"
#include "base/random.h"
#include "transfer/transfer.h"

namespace causeway::transfer {
namespace {

constexpr double kRateMin = 1;     // bytes per second
constexpr double kRateMax = 1e15;  // a petabyte per second
constexpr double kAlike = 0.99;    // a set with this share of the best rate is as good
// Sets that give less than this share of the sum of their links are limited by a shared resource.
constexpr double kShared = 0.95;
constexpr double kCostMax = 16;

bool plausible(double rate) { return rate >= kRateMin && rate <= kRateMax; }

bool known_links(LinkSet links, int count) {
  return !links.empty() && (links.bits & ~LinkSet::first(count).bits) == 0;
}

double alone(const LinkMap& map, int link, Direction direction) {
  for (const SetRate& set : map.own[index_of(direction)]) {
    if (set.links == LinkSet::of(link)) return set.rate;
  }
  return 0;
}

LinkSet reach_of(const LinkMap& map, int target, Direction direction) {
  LinkSet reach = LinkSet::of(target);
  for (const PeerRate& peer : map.peers) {
    const int far = direction == Direction::kIn ? peer.target : peer.source;
    if (far != target) continue;
    reach = reach.with(direction == Direction::kIn ? peer.source : peer.target);
  }
  return reach;
}

Status check_way(const LinkMap& map, Direction direction) {
  const std::string where = "link map: way " + std::string(name_of(direction));
  std::set<LinkSet> seen;
  for (const SetRate& set : map.own[index_of(direction)]) {
    if (!known_links(set.links, map.links)) return corrupt(where + " has a set of unknown links");
    if (!plausible(set.rate)) return corrupt(where + " has an implausible rate");
    if (!seen.insert(set.links).second) return corrupt(where + " has a set twice");
  }
  for (int link = 0; link < map.links; ++link) {
    if (seen.contains(LinkSet::of(link))) continue;
    return corrupt(where + " lacks link " + std::to_string(link) + " alone");
  }
  std::set<std::pair<int, LinkSet>> relayed;
  for (const RelayRate& set : map.relayed[index_of(direction)]) {
    if (set.target < 0 || set.target >= map.links) return corrupt(where + " has an unknown target");
    if (!known_links(set.links, map.links)) return corrupt(where + " has a set of unknown links");
    if ((set.links.bits & ~reach_of(map, set.target, direction).bits) != 0) {
      return corrupt(where + " relays over GPUs that do not reach the target");
    }
    if (!plausible(set.rate)) return corrupt(where + " has an implausible rate");
    if (!relayed.emplace(set.target, set.links).second) return corrupt(where + " has a set twice");
  }
  return {};
}

// How much one byte of each link costs on what all share: projections onto the measured sets'
// equal-share equations, rate × Σ costs = capacity × links, with costs kept in [1, kCostMax].
std::vector<double> fit_costs(const LinkMap& map, Direction direction, double capacity) {
  constexpr int kSweeps = 200;
  std::vector<double> costs(at(map.links), 1);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (const SetRate& set : map.own[index_of(direction)]) {
      double sum_alone = 0, sum = 0;
      for (int link = 0; link < map.links; ++link) {
        if (!set.links.has(link)) continue;
        sum_alone += alone(map, link, direction);
        sum += costs[at(link)];
      }
      if (set.rate >= kShared * sum_alone) continue;
      CAUSEWAY_DCHECK(set.rate > 0 && capacity > 0, "a set of links that moves nothing");
      const double wanted = capacity * set.links.count() / set.rate;
      const double step = 0.5 * (wanted - sum) / set.links.count();
      for (int link = 0; link < map.links; ++link) {
        if (!set.links.has(link)) continue;
        costs[at(link)] = std::clamp(costs[at(link)] + step, 1.0, kCostMax);
      }
    }
  }
  return costs;
}

// The capacity that the links of a direction share; 0 when no measurement shows that they share
// any.
double shared_capacity(const LinkMap& map, Direction direction) {
  double best = 0;
  bool shared = false;
  for (const SetRate& set : map.own[index_of(direction)]) {
    double sum = 0;
    for (int link = 0; link < map.links; ++link) {
      if (set.links.has(link)) sum += alone(map, link, direction);
    }
    CAUSEWAY_DCHECK(sum > 0, "a link of a set has no rate alone");
    shared = shared || set.rate < kShared * sum;
    best = std::max(best, set.rate);
  }
  return shared ? best : 0;
}

std::string file_part(std::string_view name) {
  std::string part;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (letter) part += c;
    if (c >= 'A' && c <= 'Z') part += static_cast<char>(c - 'A' + 'a');
    if (c == ' ' && !part.empty() && part.back() != '-') part += '-';
  }
  return part.substr(0, 32);
}

}  // namespace

Status check(const LinkMap& map) {
  if (map.links < 1 || map.links > kLinksMax) return corrupt("link map: 1 to 64 links");
  if (!map.duplex.empty() && std::ssize(map.duplex) != map.links) {
    return corrupt("link map: duplex is not one rate a link");
  }
  for (const double rate : map.duplex) {
    if (rate != 0 && !plausible(rate)) return corrupt("link map: implausible duplex rate");
  }
  std::set<std::pair<int, int>> pairs;
  for (const PeerRate& peer : map.peers) {
    const bool known = std::min(peer.source, peer.target) >= 0 &&
                       std::max(peer.source, peer.target) < map.links && peer.source != peer.target;
    if (!known) return corrupt("link map: peers with a source or target that is no GPU");
    if (!plausible(peer.rate)) return corrupt("link map: implausible peer rate");
    if (!pairs.emplace(peer.source, peer.target).second) {
      return corrupt("link map: a peer pair twice");
    }
  }
  for (const Direction direction : kBothDirections) CAUSEWAY_TRY(check_way(map, direction));
  return {};
}

BestSet best_set(const LinkMap& map, int target, Direction direction) {
  std::vector<BestSet> candidates;
  for (const RelayRate& set : map.relayed[index_of(direction)]) {
    if (set.target == target) candidates.push_back({set.links, set.rate});
  }
  if (candidates.empty()) {
    const LinkSet reach = reach_of(map, target, direction);
    for (const SetRate& set : map.own[index_of(direction)]) {
      if ((set.links & reach) == set.links) candidates.push_back({set.links, set.rate});
    }
  }
  double most = 0;
  for (const BestSet& set : candidates) most = std::max(most, set.rate);
  std::erase_if(candidates, [&](const BestSet& set) { return set.rate < kAlike * most; });
  CAUSEWAY_DCHECK(candidates.empty() || most > 0, "no set of links has a rate");
  const auto better = [&](const BestSet& a, const BestSet& b) {
    if (a.links.count() != b.links.count()) return a.links.count() > b.links.count();
    if (a.links.has(target) != b.links.has(target)) return a.links.has(target);
    return a.rate > b.rate;
  };
  const auto best = std::min_element(candidates.begin(), candidates.end(), better);
  return best == candidates.end() ? BestSet{LinkSet::of(target), 0} : *best;
}

PathFacts facts_of(const LinkMap& map) {
  CAUSEWAY_DCHECK(check(map).ok(), "a map is checked when it is read or measured");
  PathFacts facts = assume_all_links(map.links);
  for (const Direction direction : kBothDirections) {
    WayFacts& way = facts.way(direction);
    for (int link = 0; link < map.links; ++link) {
      const BestSet best = best_set(map, link, direction);
      way.best[at(link)] = best.links;
      way.best_rate[at(link)] = best.rate;
      way.reach[at(link)] = reach_of(map, link, direction);
      way.alone[at(link)] = alone(map, link, direction);
    }
  }
  return facts;
}

device::LinkProfile profile_of(const LinkMap& map) {
  using device::kHostEnd;
  device::LinkProfile profile;

  CAUSEWAY_DCHECK(check(map).ok(), "a map is checked when it is read or measured");
  const auto add = [&](std::string name, double rate) {
    profile.resources.push_back({std::move(name), std::max(rate, kRateMin)});
    return static_cast<int>(profile.resources.size()) - 1;
  };
  std::array<int, kDirections> shared = {-1, -1};
  std::array<std::vector<double>, kDirections> costs;
  for (const Direction direction : kBothDirections) {
    const double capacity = shared_capacity(map, direction);
    if (capacity <= 0) continue;
    shared[index_of(direction)] = add("host." + std::string(name_of(direction)), capacity);
    costs[index_of(direction)] = fit_costs(map, direction, capacity);
  }
  std::vector<int> peer_in, peer_out;
  for (int link = 0; link < map.links; ++link) {
    const std::string name = "link" + std::to_string(link);
    const double duplex = map.duplex.empty() ? 0 : map.duplex[at(link)];
    const int both = duplex > 0 ? add(name + ".duplex", duplex) : -1;
    for (const Direction direction : kBothDirections) {
      const std::size_t d = index_of(direction);
      const bool in = direction == Direction::kIn;
      device::LinkPath path{in ? kHostEnd : link, in ? link : kHostEnd, {}, micros(1)};
      path.route.push_back(
          add(name + "." + std::string(name_of(direction)), alone(map, link, direction)));
      if (both >= 0) path.route.push_back(both);
      path.costs.assign(path.route.size(), 1);
      if (shared[d] >= 0) {
        path.route.push_back(shared[d]);
        path.costs.push_back(costs[d][at(link)]);
      }
      profile.paths.push_back(std::move(path));
    }
    double in = 0, out = 0;
    for (const PeerRate& peer : map.peers) {
      if (peer.target == link) in = std::max(in, peer.rate);
      if (peer.source == link) out = std::max(out, peer.rate);
    }
    peer_in.push_back(in > 0 ? add(name + ".peer_in", in) : -1);
    peer_out.push_back(out > 0 ? add(name + ".peer_out", out) : -1);
  }
  for (const PeerRate& peer : map.peers) {
    profile.paths.push_back({peer.source,
                             peer.target,
                             {peer_out[at(peer.source)], peer_in[at(peer.target)]},
                             micros(1)});
  }
  return profile;
}

std::string machine_identity(const topology::Machine& machine) {
  std::uint64_t hash = 0;
  const auto mix = [&](std::string_view text) {
    for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
    hash = mix64(hash + text.size());
  };
  for (const topology::Gpu& gpu : machine.gpus) {
    mix(gpu.name);
    mix(gpu.pci_id);
    mix(std::to_string(gpu.pcie_max.generation * 64 + gpu.pcie_max.lanes));
    mix(std::to_string(gpu.nvlinks.active));
  }
  for (const topology::Node& node : machine.nodes) {
    if (node.kind == topology::NodeKind::kPackage) mix(node.name);
  }
  mix(machine.driver);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = std::to_string(machine.gpus.size()) + "x-";
  if (!machine.gpus.empty()) text += file_part(machine.gpus.front().name) + "-";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash >> shift & 15];
  return text;
}

}  // namespace causeway::transfer
