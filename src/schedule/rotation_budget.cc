#include "schedule/rotation_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace causeway::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool moves(double rate) { return std::isfinite(rate) && rate > 0; }

// The frames that one direction moves during a step, beside what `others` send.
std::int64_t frames_one_way(double rate, Bytes others, const LinkFacts& facts,
                            const BudgetLimits& limits) {
  if (!moves(rate)) return 0;
  const double whole = rate * to_seconds(std::max(facts.step, Nanos(0)));
  const double left = whole - static_cast<double>(std::max(others, Bytes(0)).count);
  const double bytes = std::max(left, whole * limits.rate_share_min);
  // An iteration never needs to move more than all frames.
  const double frames = std::min(bytes / static_cast<double>(facts.frame.count),
                                 static_cast<double>(std::max<std::int64_t>(1, facts.frames)));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(frames));
}

double seconds_of(std::int64_t frames, double rate, Bytes frame) {
  if (frames == 0) return 0;
  if (!moves(rate)) return kNever;
  return static_cast<double>(frames) * static_cast<double>(frame.count) / rate;
}

}  // namespace

Status check_limits(const BudgetLimits& limits) {
  const auto check = [](double share, double least, double most, const char* what) -> Status {
    // Written so that NaN fails.
    if (share >= least && share <= most) return {};
    return invalid_argument(
        fmt::format("{} is a share from {} to {}, not {}", what, least, most, share));
  };
  CAUSEWAY_TRY(check(limits.frames_share_max, 1e-6, 0.5,
                     "what of the KV frames rotates in a step at the most"));
  return check(limits.rate_share_min, 0, 1, "what of the link rotation has at the least");
}

RotationBudget rotation_budget(const LinkFacts& facts, const BudgetLimits& limits) {
  CAUSEWAY_CHECK(facts.frame > Bytes(0), "frames without a size");
  CAUSEWAY_CHECK(check_limits(limits).ok(),
                 "B_xfer is a share of the frames of at most a half: twice as much is kept free");
  if (!moves(facts.out_rate) || !moves(facts.in_rate)) return {};
  RotationBudget budget;
  budget.out = frames_one_way(facts.out_rate, facts.eager_out, facts, limits);
  budget.in = frames_one_way(facts.in_rate, facts.weights_in, facts, limits);
  const auto share =
      static_cast<std::int64_t>(static_cast<double>(facts.frames) * limits.frames_share_max);
  budget.exchange = std::min({budget.out, budget.in, std::max<std::int64_t>(1, share)});
  return budget;
}

double seconds_to_rotate(const VictimCost& cost, const CostRates& rates) {
  return seconds_of(cost.copies_out, rates.out_rate, rates.frame) +
         seconds_of(cost.copies_in, rates.in_rate, rates.frame);
}

double seconds_to_recompute(const VictimCost& cost) {
  if (cost.computed.count == 0) return 0;
  if (!moves(cost.prefill_rate)) return kNever;
  return static_cast<double>(cost.computed.count) / cost.prefill_rate;
}

bool cheaper_to_recompute(const VictimCost& cost, const CostRates& rates) {
  return seconds_to_recompute(cost) < seconds_to_rotate(cost, rates);
}

}  // namespace causeway::schedule
