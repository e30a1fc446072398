#include "schedule/hbm_plan.h"

#include <algorithm>
#include <string>

#include "base/dcheck.h"

namespace causeway::schedule {
namespace {

std::string mib_of(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

Error does_not_fit(const HbmDemand& demand, const HbmPlan& plan, Bytes kv) {
  const std::string part =
      demand.share < 1 ? " by a slice that is " +
                             std::to_string(static_cast<int>(100 * demand.share)) + " % of it"
                       : "";
  return exhausted("the GPU has " + mib_of(demand.total) + ", " + mib_of(demand.free) +
                   " of them free, of which " + mib_of(plan.budget) + " may be used" + part +
                   "; weights need " + mib_of(plan.weights) + ", workspace " +
                   mib_of(plan.workspace) + ", the driver " + mib_of(demand.driver) + " and KV " +
                   mib_of(kv) +
                   ": serve fewer or smaller models, shorter steps or less KV, or let more of "
                   "the GPU's memory be used");
}

// The share of the memory of weights and KV together, unless one of them was given a size.
constexpr double kWeightsShare = 0.75;

// The part of the planned KV that the border never takes.
constexpr double kKvKept = 0.25;

Result<Bytes> weights_of(const HbmDemand& demand, Bytes shared, Bytes kv) {
  const Bytes all = round_up(demand.weights, demand.extent);
  const Bytes largest = round_up(demand.weights_largest, demand.extent);
  if (demand.weights_wanted > demand.total) {
    return exhausted("cached weights are to have " + mib_of(demand.weights_wanted) +
                     " of HBM, and the GPU has " + mib_of(demand.total));
  }
  if (demand.weights_wanted.count > 0) {
    const Bytes wanted = std::min(all, round_up(demand.weights_wanted, demand.extent));
    if (wanted >= largest) return wanted;
    return exhausted("a model's weights take " + mib_of(largest) +
                     ", and cached weights are to have " + mib_of(demand.weights_wanted) +
                     " of HBM");
  }
  const Bytes share =
      kv.count > 0 ? shared - kv
                   : Bytes(static_cast<std::int64_t>(
                         kWeightsShare * static_cast<double>(std::max(shared, Bytes(0)).count)));
  return std::min(all,
                  std::max(largest, demand.extent * (std::max(share, Bytes(0)) / demand.extent)));
}

Bytes budget_of(const HbmDemand& demand) {
  const auto usable = static_cast<double>(demand.total.count) * demand.utilization;
  const Bytes used = demand.total - demand.free;
  const Bytes others = used - std::clamp(demand.neighbours, Bytes(0), used);
  const Bytes all = Bytes(static_cast<std::int64_t>(usable)) - others;
  CAUSEWAY_DCHECK(others >= Bytes(0), "others use less than nothing");
  const auto own = static_cast<double>(all.count) * demand.share;
  return std::clamp(Bytes(static_cast<std::int64_t>(own)), Bytes(0), demand.free);
}

}  // namespace

Bytes weights_room(const HbmDemand& demand) {
  const Bytes kv_min = round_up(std::max(demand.kv, demand.kv_min), demand.extent);
  const Bytes shared =
      budget_of(demand) - demand.driver - round_up(demand.workspace, demand.extent);
  const Bytes wanted = demand.weights_wanted;
  Bytes room = shared - kv_min;
  if (wanted.count > 0) {
    room = std::min(room, wanted);
  } else if (demand.kv.count == 0) {
    room = std::min(
        room, Bytes(static_cast<std::int64_t>(kWeightsShare * static_cast<double>(shared.count))));
  }
  return demand.extent * (std::max(room, Bytes(0)) / demand.extent);
}

Result<HbmPlan> plan_hbm(const HbmDemand& demand) {
  if (!(demand.utilization > 0 && demand.utilization <= 1)) {
    return invalid_argument(
        "the share of a GPU's memory that may be used is above 0 and at most 1");
  }
  if (!(demand.share > 0 && demand.share <= 1)) {
    return invalid_argument("a slice's share of a GPU's memory is above 0 and at most 1");
  }
  HbmPlan plan;
  plan.budget = budget_of(demand);
  plan.workspace = round_up(demand.workspace, demand.extent);
  const Bytes kv_min = round_up(std::max(demand.kv, demand.kv_min), demand.extent);
  const Bytes shared = plan.budget - demand.driver - plan.workspace;
  CAUSEWAY_ASSIGN(plan.weights,
                  weights_of(demand, shared, demand.kv.count > 0 ? kv_min : Bytes(0)));
  const Bytes left = shared - plan.weights;
  if (left < kv_min) return does_not_fit(demand, plan, kv_min);
  plan.kv = demand.kv.count > 0 ? kv_min : demand.extent * (left / demand.extent);
  plan.kv_least = plan.kv_most = plan.kv;
  if (demand.kv.count > 0 || demand.weights_wanted.count > 0) return plan;
  const Bytes kept(static_cast<std::int64_t>(kKvKept * static_cast<double>(plan.kv.count)));
  plan.kv_least = std::max(kv_min, demand.extent * (kept / demand.extent));
  const Bytes stay = round_up(demand.weights_largest + demand.weights_pinned, demand.extent);
  plan.kv_most += std::max(Bytes(0), plan.weights - stay);
  CAUSEWAY_DCHECK(plan.kv_least <= plan.kv && plan.kv <= plan.kv_most, "the border has no room");
  return plan;
}

}  // namespace causeway::schedule
