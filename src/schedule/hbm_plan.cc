#include "schedule/hbm_plan.h"

#include <algorithm>
#include <string>

namespace causeway::schedule {
namespace {

std::string mib_of(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

Error does_not_fit(const HbmDemand& demand, const HbmPlan& plan, Bytes kv) {
  return exhausted("the GPU has " + mib_of(demand.total) + ", " + mib_of(demand.free) +
                   " of them free, of which " + mib_of(plan.budget) +
                   " may be used; weights need " + mib_of(plan.weights) + ", workspace " +
                   mib_of(plan.workspace) + ", the driver " + mib_of(demand.driver) + " and KV " +
                   mib_of(kv) +
                   ": serve fewer or smaller models, shorter steps or less KV, or raise "
                   "--gpu-memory-utilization");
}

}  // namespace

Result<HbmPlan> plan_hbm(const HbmDemand& demand) {
  if (!(demand.utilization > 0 && demand.utilization <= 1)) {
    return invalid_argument("--gpu-memory-utilization must be above 0 and at most 1");
  }
  const auto share = static_cast<double>(demand.total.count) * demand.utilization;
  const Bytes used = demand.total - demand.free;
  HbmPlan plan;
  plan.budget = std::clamp(Bytes(static_cast<std::int64_t>(share)) - used, Bytes(0), demand.free);
  plan.workspace = round_up(demand.workspace, demand.extent);
  plan.weights = round_up(demand.weights, demand.extent);
  const Bytes kv_min = round_up(std::max(demand.kv, demand.kv_min), demand.extent);
  const Bytes left = plan.budget - demand.driver - plan.workspace - plan.weights;
  if (left < kv_min) return does_not_fit(demand, plan, kv_min);
  plan.kv = demand.kv.count > 0 ? kv_min : demand.extent * (left / demand.extent);
  return plan;
}

}  // namespace causeway::schedule
