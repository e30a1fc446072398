// What the selector knows of a machine's links before it moves anything: plain data, made from a
// LinkMap (link_map.h) or assumed.
#pragma once

#include <array>
#include <vector>

#include "transfer/transfer.h"

namespace causeway::transfer {

struct WayFacts {
  std::vector<LinkSet> best;  // by target: the links to use for a large transfer
  std::vector<double>
      best_rate;               // by target: what they give together, bytes per second; 0: unknown
  std::vector<LinkSet> reach;  // by target: links whose GPU can pass bytes on, and its own
  std::vector<double> alone;   // by link: bytes per second; 0: unknown
};

struct PathFacts {
  int links = 1;
  std::array<WayFacts, kDirections> ways;  // by Direction

  const WayFacts& way(Direction direction) const { return ways[index_of(direction)]; }
  WayFacts& way(Direction direction) { return ways[index_of(direction)]; }
};

// Without a map: every link may help every target.
inline PathFacts assume_all_links(int links) {
  PathFacts facts;
  facts.links = links;
  const auto n = static_cast<std::size_t>(links);
  for (WayFacts& way : facts.ways) {
    way.best.assign(n, LinkSet::first(links));
    way.reach.assign(n, LinkSet::first(links));
    way.best_rate.assign(n, 0);
    way.alone.assign(n, 0);
  }
  return facts;
}

}  // namespace causeway::transfer
