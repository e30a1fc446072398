// Chooses the links that bring a slice's bytes: its GPU's own, and those of GPUs that can pass
// bytes on to it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transfer/link_map.h"

namespace causeway::slice {

enum class LinkChoice : std::uint8_t {
  kOwn,  // the GPU's own link
  kMap,  // those that the machine's link map says are best; without a map its own
  kAll,  // those of every GPU that reaches it
};

struct LinksWanted {
  int own = 0;   // the slice's GPU
  int gpus = 1;  // that the process sees
  LinkChoice choice = LinkChoice::kMap;
  const transfer::LinkMap* map = nullptr;              // of these GPUs; nullptr: there is none
  std::function<bool(int source, int target)> passes;  // bytes from one GPU to another
};

struct LinkPlan {
  std::vector<int> gpus;      // by link of the slice's engine; its own is the first
  transfer::PathFacts facts;  // of these links: all for the slice, none for each other
  transfer::LinkSet in;       // by GPU: those that bring bytes in, as far as can be foreseen
  double rate_in = 0;         // of these together, by the map; 0: unknown
  transfer::LinkSet out;      // the same of those that take bytes out
  double rate_out = 0;
};

LinkPlan plan_links(const LinksWanted& wanted);

}  // namespace causeway::slice
