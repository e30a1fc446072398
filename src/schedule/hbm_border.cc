#include "schedule/hbm_border.h"

#include <algorithm>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::schedule {
namespace {

// KV keeps one frame free for so many in use, because these grow, before others count as spare.
constexpr std::int64_t kKeptPart = 4;

std::int64_t extents_for(std::int64_t frames, std::int64_t frames_per_extent) {
  return (std::max<std::int64_t>(frames, 0) + frames_per_extent - 1) / frames_per_extent;
}

// In extents.
struct Side {
  std::int64_t has = 0;
  std::int64_t must = 0;   // what the side cannot do without
  std::int64_t least = 0;  // below which the side gives nothing
  std::int64_t lacks = 0;
  std::int64_t spare = 0;

  std::int64_t above_least() const { return std::max<std::int64_t>(0, has - least); }
};

Side side_of(const BorderRules& rules, const KvDemand& kv) {
  const std::int64_t extent = rules.frames_per_extent;
  const std::int64_t open = kv.usable - kv.in_use - kv.wanted;
  const std::int64_t spare = open - kv.in_use / kKeptPart;
  Side side;
  side.has = kv.usable / extent;
  side.must = std::max(rules.kv_min, extents_for(kv.largest, extent));
  side.least = side.must;
  side.lacks = extents_for(-open, extent);
  side.spare = std::max<std::int64_t>(0, spare) / extent;
  CAUSEWAY_DCHECK(side.lacks == 0 || side.spare == 0, "KV has too much and too little");
  return side;
}

Side side_of(const WeightDemand& weights) {
  const std::int64_t open = weights.budget - weights.used + weights.idle - weights.wanted;
  Side side;
  side.has = weights.budget;
  side.must = weights.largest;
  side.least = std::max(weights.least, weights.largest);
  side.lacks = std::max<std::int64_t>(0, -open);
  side.spare = std::max<std::int64_t>(0, open);
  CAUSEWAY_DCHECK(side.lacks == 0 || side.spare == 0, "weights have too much and too little");
  return side;
}

// What the taking side cannot do without.
std::int64_t due(const Side& taker, const Side& giver) {
  return std::min(taker.must - taker.has, giver.above_least());
}

// What the taking side lacks and the other can spare.
std::int64_t offered(const Side& taker, const Side& giver) {
  return std::min({taker.lacks, giver.spare, giver.above_least()});
}

}  // namespace

BorderDecision decide_border(const BorderRules& rules, const KvDemand& kv_demand,
                             const WeightDemand& weight_demand,
                             const std::optional<BorderMove>& last, Nanos moved, Nanos now) {
  CAUSEWAY_CHECK(rules.frames_per_extent >= 1, "an extent without frames");
  CAUSEWAY_CHECK(kv_demand.usable % rules.frames_per_extent == 0, "KV has a part of an extent");
  const Side kv = side_of(rules, kv_demand);
  const Side weights = side_of(weight_demand);
  const std::int64_t kv_room = std::max<std::int64_t>(0, rules.kv_max - kv.has);
  const auto to = [&](BorderSide side, std::int64_t extents) {
    return BorderMove{side, side == BorderSide::kKv ? std::min(extents, kv_room) : extents};
  };
  for (const BorderMove move :
       {to(BorderSide::kKv, due(kv, weights)), to(BorderSide::kWeights, due(weights, kv))}) {
    if (move.extents > 0) return {.move = move, .again = {}};
  }
  for (const BorderMove move : {to(BorderSide::kKv, offered(kv, weights)),
                                to(BorderSide::kWeights, offered(weights, kv))}) {
    if (move.extents <= 0) continue;
    const bool back = last && last->to != move.to;
    if (back && now < moved + rules.hold) return {.move = {}, .again = moved + rules.hold};
    return {.move = move, .again = {}};
  }
  return {};
}

}  // namespace causeway::schedule
