#include "fleet/fleet_spec.h"

#include <algorithm>

namespace causeway::fleet {
namespace {

double per_second(double amount, Nanos time) { return amount / std::max(1e-9, to_seconds(time)); }

}  // namespace

Demand& Demand::operator+=(const Demand& other) {
  crosses += other.crosses;
  stays += other.stays;
  memory += other.memory;
  link_bytes_per_second += other.link_bytes_per_second;
  memory_bytes_per_second += other.memory_bytes_per_second;
  flops_per_second += other.flops_per_second;
  return *this;
}

Demand demand_of(const ModelSpec& model, Bytes resident) {
  const Bytes stays = std::clamp(resident, Bytes(0), model.weights);
  const Bytes crosses = model.weights - stays;
  const double prompt = model.flops_per_token * static_cast<double>(model.prompt.count);
  return {.crosses = crosses,
          .stays = stays,
          .memory = model.memory_min,
          .link_bytes_per_second = per_second(static_cast<double>(crosses.count), model.slo.tpot),
          .memory_bytes_per_second =
              per_second(static_cast<double>(model.weights.count), model.slo.tpot),
          .flops_per_second = per_second(prompt, model.slo.ttft)};
}

}  // namespace causeway::fleet
