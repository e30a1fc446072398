#include "slice/link_plan.h"

#include "base/check.h"
#include "transfer/link_map_part.h"

namespace causeway::slice {
namespace {

using transfer::Direction;
using transfer::kBothDirections;
using transfer::LinkSet;

LinkSet wanted_links(const LinksWanted& wanted) {
  const LinkSet own = LinkSet::of(wanted.own);
  if (wanted.choice == LinkChoice::kAll) return LinkSet::first(wanted.gpus);
  if (wanted.choice == LinkChoice::kOwn || wanted.map == nullptr) return own;
  return own | transfer::best_set(*wanted.map, wanted.own, Direction::kIn).links |
         transfer::best_set(*wanted.map, wanted.own, Direction::kOut).links;
}

bool relays(const LinksWanted& wanted, int gpu) {
  return gpu != wanted.own && wanted.passes(gpu, wanted.own) && wanted.passes(wanted.own, gpu);
}

// The other GPUs are there for the slice's: nothing is brought to them.
void serve_first_only(transfer::PathFacts& facts) {
  for (const Direction direction : kBothDirections) {
    transfer::WayFacts& way = facts.way(direction);
    for (int link = 1; link < facts.links; ++link) {
      const auto at = static_cast<std::size_t>(link);
      way.best[at] = way.reach[at] = LinkSet::of(link);
      way.best_rate[at] = way.alone[at];
    }
  }
}

// The best links of the slice's device, which is the first.
LinkSet best_by_gpu(const LinkPlan& plan, Direction direction) {
  const LinkSet best = plan.facts.way(direction).best.front();
  LinkSet gpus;
  for (std::size_t link = 0; link < plan.gpus.size(); ++link) {
    if (best.has(static_cast<int>(link))) gpus = gpus.with(plan.gpus[link]);
  }
  return gpus;
}

}  // namespace

LinkPlan plan_links(const LinksWanted& wanted) {
  CAUSEWAY_CHECK(wanted.own >= 0 && wanted.own < wanted.gpus, "no such GPU");
  LinkPlan plan{.gpus = {wanted.own}, .facts = {}, .in = {}, .out = {}};
  const LinkSet links = wanted_links(wanted);
  for (int gpu = 0; gpu < wanted.gpus; ++gpu) {
    if (links.has(gpu) && relays(wanted, gpu)) plan.gpus.push_back(gpu);
  }
  const bool mapped = wanted.choice == LinkChoice::kMap && wanted.map != nullptr;
  plan.facts = mapped ? transfer::facts_of(transfer::part_of(*wanted.map, plan.gpus))
                      : transfer::assume_all_links(static_cast<int>(plan.gpus.size()));
  serve_first_only(plan.facts);
  plan.rate_in = plan.facts.way(Direction::kIn).best_rate.front();
  plan.rate_out = plan.facts.way(Direction::kOut).best_rate.front();
  plan.in = best_by_gpu(plan, Direction::kIn);
  plan.out = best_by_gpu(plan, Direction::kOut);
  return plan;
}

}  // namespace causeway::slice
