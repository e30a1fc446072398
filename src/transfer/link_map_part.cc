#include "transfer/link_map_part.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

// The set in new numbers; nullopt when a link of it is left out.
std::optional<LinkSet> renumbered(LinkSet set, const std::vector<int>& links) {
  LinkSet part;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (set.has(links[i])) part = part.with(static_cast<int>(i));
  }
  if (part.count() != set.count()) return std::nullopt;
  return part;
}

std::optional<int> renumbered(int link, const std::vector<int>& links) {
  CAUSEWAY_DCHECK(link >= 0, "no such link");
  const auto found = std::find(links.begin(), links.end(), link);
  if (found == links.end()) return std::nullopt;
  return static_cast<int>(found - links.begin());
}

}  // namespace

LinkMap part_of(const LinkMap& map, const std::vector<int>& links) {
  LinkMap part;
  part.machine = map.machine;
  part.links = static_cast<int>(links.size());
  for (const Direction direction : kBothDirections) {
    const std::size_t way = index_of(direction);
    for (const SetRate& known : map.own[way]) {
      if (const auto set = renumbered(known.links, links)) {
        part.own[way].push_back({*set, known.rate});
      }
    }
    for (const RelayRate& known : map.relayed[way]) {
      const auto set = renumbered(known.links, links);
      const auto target = renumbered(known.target, links);
      if (set && target) part.relayed[way].push_back({*target, *set, known.rate});
    }
  }
  for (const int link : links) {
    const auto at = static_cast<std::size_t>(link);
    part.duplex.push_back(at < map.duplex.size() ? map.duplex[at] : 0);
  }
  for (const PeerRate& peer : map.peers) {
    const auto source = renumbered(peer.source, links);
    const auto target = renumbered(peer.target, links);
    if (source && target) part.peers.push_back({*source, *target, peer.rate});
  }
  return part;
}

std::optional<std::vector<int>> ranks_of(const std::vector<std::string>& ids,
                                         std::vector<std::string> machine) {
  std::sort(machine.begin(), machine.end());
  std::vector<int> ranks;
  for (const std::string& id : ids) {
    const auto found = std::lower_bound(machine.begin(), machine.end(), id);
    if (id.empty() || found == machine.end() || *found != id) return std::nullopt;
    ranks.push_back(static_cast<int>(found - machine.begin()));
  }
  return ranks;
}

Result<std::vector<std::size_t>> order_for_map(const std::vector<std::string>& ids,
                                               const std::vector<std::string>& machine) {
  const auto ranks = ranks_of(ids, machine);
  std::vector<std::size_t> order(machine.size(), ids.size());
  for (std::size_t i = 0; ranks && i < ids.size(); ++i) {
    order[static_cast<std::size_t>((*ranks)[i])] = i;
  }
  if (std::find(order.begin(), order.end(), ids.size()) != order.end()) {
    return invalid_argument("the links were not measured for a map: it is about all " +
                            std::to_string(machine.size()) + " GPUs, and this process uses " +
                            std::to_string(ids.size()));
  }
  return order;
}

Result<LinkMap> part_for(const LinkMap& map, const std::vector<std::string>& ids,
                         std::vector<std::string> machine) {
  const auto links = ranks_of(ids, std::move(machine));
  if (!links) return unsupported("which of the machine's GPUs these are is not known");
  const bool fits =
      std::all_of(links->begin(), links->end(), [&](int link) { return link < map.links; });
  if (!fits) {
    return invalid_argument("it is about " + std::to_string(map.links) +
                            " GPUs, and the machine has more");
  }
  LinkMap part = part_of(map, *links);
  CAUSEWAY_TRY(check(part));
  return part;
}

}  // namespace causeway::transfer
