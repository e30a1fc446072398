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
  kMap,  // those that the machine's link map recommends; without a map the GPU's own
  kAll,  // those of every GPU that reaches it
};

struct LinksWanted {
  int own = 0;   // the slice's GPU
  int gpus = 1;  // that the process sees
  LinkChoice choice = LinkChoice::kMap;
  const transfer::LinkMap* map = nullptr;              // of these GPUs; nullptr: there is none
  // Whether bytes can go from one GPU to another.
  std::function<bool(int source, int target)> passes;
};

struct LinkPlan {
  std::vector<int> gpus;  // by link of the slice's engine; the slice's own GPU is the first
  // Facts of these links: all may carry bytes of the slice, and none those of another.
  transfer::PathFacts facts;
  // By GPU: the links that will bring bytes in, as far as is known in advance.
  transfer::LinkSet in;
  double rate_in = 0;     // of these together, by the map; 0: unknown
  transfer::LinkSet out;  // the same for bytes that go out
  double rate_out = 0;
};

LinkPlan plan_links(const LinksWanted& wanted);

}  // namespace causeway::slice
