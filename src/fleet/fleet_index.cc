#include "fleet/fleet_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/dcheck.h"
#include "fleet/fleet_view.h"

namespace causeway::fleet {
namespace {

double limit(double of_slice) { return of_slice > 0 ? of_slice : Offer::kNone; }

Offer best_of(const Offer& a, const Offer& b) {
  return {.memory_rate = std::min(a.memory_rate, b.memory_rate),
          .flops = std::min(a.flops, b.flops),
          .link = std::min(a.link, b.link),
          .free = std::max(a.free, b.free),
          .room = std::max(a.room, b.room),
          .places = std::max(a.places, b.places)};
}

IndexNode best_of(const IndexNode& a, const IndexNode& b) {
  const bool a_goes = std::pair(a.go_busy, a.go_log) < std::pair(b.go_busy, b.go_log);
  const bool a_drains = std::pair(a.drain_busy, a.drain_log) < std::pair(b.drain_busy, b.drain_log);
  return {.now = best_of(a.now, b.now),
          .gone = best_of(a.gone, b.gone),
          .drained = best_of(a.drained, b.drained),
          .load = std::min(a.load, b.load),
          .memory_rate_max = std::max(a.memory_rate_max, b.memory_rate_max),
          .flops_max = std::max(a.flops_max, b.flops_max),
          .link_max = std::max(a.link_max, b.link_max),
          .link_share_max = std::max(a.link_share_max, b.link_share_max),
          .free_least = std::min(a.free_least, b.free_least),
          .places_least = std::min(a.places_least, b.places_least),
          .go_busy = std::min(a.go_busy, b.go_busy),
          .drain_busy = std::min(a.drain_busy, b.drain_busy),
          .go_log = a_goes ? a.go_log : b.go_log,
          .drain_log = a_drains ? a.drain_log : b.drain_log,
          .models = std::min(a.models, b.models)};
}

// Once those have gone of which `goes` is true, added up in the order of FleetView::sum().
template <typename Goes>
Offer offer_of(const SliceView& slice, double link_used, Goes goes) {
  Demand left;
  std::int64_t models = 0;
  for (const PlacedModel& placed : slice.models) {
    if (goes(placed)) continue;
    left += placed.demand;
    models += 1;
  }
  Offer offer{.memory_rate = left.memory_bytes_per_second,
              .flops = left.flops_per_second,
              .link = link_used - (slice.sum.link_bytes_per_second - left.link_bytes_per_second),
              .free = INT64_MAX,
              .room = INT64_MAX,
              .places = INT64_MAX};
  if (slice.spec.memory > Bytes(0)) {
    offer.free = (slice.spec.memory - left.memory).count;
    offer.room = offer.free - left.stays.count;
    CAUSEWAY_DCHECK(offer.room <= offer.free, "weights that stay take of what is free");
  }
  if (slice.spec.models_max > 0) offer.places = slice.spec.models_max - models;
  return offer;
}

IndexNode leaf_of(const SliceView& slice, double link_used, double link_rate, double link_share) {
  IndexNode leaf;
  if (!slice.up) return leaf;
  leaf.now = offer_of(slice, link_used, [](const PlacedModel&) { return false; });
  leaf.gone = leaf.drained = leaf.now;
  leaf.load = slice.load();
  leaf.models = std::ssize(slice.models);
  leaf.free_least = leaf.now.free;
  leaf.places_least = leaf.now.places;
  leaf.memory_rate_max = limit(slice.spec.memory_bytes_per_second);
  leaf.flops_max = limit(slice.spec.flops_per_second);
  leaf.link_max = limit(link_rate);
  leaf.link_share_max = link_share;
  for (const PlacedModel& placed : slice.models) {
    const BackCost cost = placed.cost();
    if (placed.may_go && cost < BackCost{leaf.go_busy, leaf.go_log}) {
      leaf.go_busy = cost.busy;
      leaf.go_log = cost.log;
    }
    if (placed.may_drain && cost < BackCost{leaf.drain_busy, leaf.drain_log}) {
      leaf.drain_busy = cost.busy;
      leaf.drain_log = cost.log;
    }
  }
  if (leaf.go_busy < 2) leaf.gone = offer_of(slice, link_used, [](auto& m) { return m.may_go; });
  if (leaf.drain_busy < 2) {
    leaf.drained = offer_of(slice, link_used, [](auto& m) { return m.may_drain; });
  }
  CAUSEWAY_DCHECK(leaf.gone.free >= leaf.now.free && leaf.drained.free >= leaf.now.free &&
                      leaf.gone.places >= leaf.now.places,
                  "models that go take nothing");
  return leaf;
}

}  // namespace

FleetIndex::FleetIndex(std::int64_t slices)
    : leaves_(std::bit_ceil(static_cast<std::size_t>(std::max<std::int64_t>(1, slices)))),
      nodes_(2 * leaves_),
      marked_(2 * leaves_) {
  for (std::int64_t i = 0; i < slices; ++i) touch(SliceId(i));
}

void FleetIndex::touch(SliceId slice) {
  CAUSEWAY_DCHECK(slice.valid() && slice.value < static_cast<std::int64_t>(leaves_),
                  "no such slice");
  const std::size_t leaf = leaves_ + static_cast<std::size_t>(slice.value);
  if (marked_[leaf]) return;
  marked_[leaf] = true;
  renew_.push_back(leaf);
}

// Level by level, so that an ancestor of several is renewed once.
void FleetIndex::bring_up(const FleetView& view) {
  std::vector<std::size_t> level = std::exchange(renew_, {});
  for (const std::size_t leaf : level) {
    const SliceId id(static_cast<std::int64_t>(leaf - leaves_));
    const SliceView& slice = view.slice(id);
    const LinkId link = slice.spec.link;
    const double rate =
        link.valid() ? view.links()[static_cast<std::size_t>(link.value)].bytes_per_second : 0;
    nodes_[leaf] = leaf_of(slice, view.link_used(id), rate, view.link_share(id));
  }
  while (!level.empty()) {
    std::size_t above = 0;
    for (const std::size_t n : level) {
      marked_[n] = false;
      if (n == kRoot || marked_[n / 2]) continue;
      marked_[n / 2] = true;
      level[above++] = n / 2;
    }
    level.resize(above);
    for (const std::size_t n : level) nodes_[n] = best_of(nodes_[2 * n], nodes_[2 * n + 1]);
  }
  CAUSEWAY_DCHECK(renew_.empty(), "renewing nodes marks none");
  renew_ = std::move(level);  // for its memory
}

SliceId FleetIndex::first_below(std::size_t n) const {
  CAUSEWAY_DCHECK(n >= kRoot && n < nodes_.size(), "no such node");
  while (!is_leaf(n)) n *= 2;
  return SliceId(static_cast<std::int64_t>(n - leaves_));
}

}  // namespace causeway::fleet
