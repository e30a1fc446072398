#include "simulate/fleet_faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::simulate {
namespace {

struct FaultCheck {
  std::int64_t machines = 0, parts_max = 0;

  bool operator()(const RequestCancel& cancel) const { return cancel.request >= 0; }
  bool operator()(const SliceLoss& loss) const {
    const bool in_order = loss.heard >= Nanos(0) && loss.back.value_or(loss.heard) >= loss.heard;
    return loss.slice >= 0 && in_order;
  }
  bool operator()(const LinkTrouble& trouble) const {
    const bool share = trouble.share >= 0 && trouble.share <= 1;
    return has(trouble.machine) && lasts(trouble.lasts) && share;
  }
  bool operator()(const MachineResize& resize) const {
    const bool parts = resize.parts >= 1 && resize.parts <= parts_max;
    return has(resize.machine) && parts && lasts(resize.drain_max) && lasts(resize.reopen);
  }
  bool operator()(const ClockJump& jump) const { return lasts(std::max(jump.by, -jump.by)); }
  bool operator()(const HostPause& pause) const { return lasts(pause.lasts); }

  bool has(std::int64_t machine) const { return machine >= 0 && machine < machines; }
  // Sums of times stay far from the largest that there is.
  static bool lasts(Nanos time) { return time >= Nanos(0) && time <= seconds(1'000'000'000); }
};

}  // namespace

Status check_faults(const FleetFaults& faults, std::int64_t machines, std::int64_t parts_max) {
  const FaultCheck check{machines, parts_max};
  Nanos last(0);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const FleetFault& fault = faults[i];
    if (fault.at < last) {
      return invalid_argument(fmt::format("fault {} is earlier than the one before", i));
    }
    if (!std::visit(check, fault.what)) {
      return invalid_argument(
          fmt::format("fault {} is of a machine that is not there, or of a time, a share or a "
                      "number of parts out of range: {} machines, up to {} parts each",
                      i, machines, parts_max));
    }
    last = fault.at;
  }
  return {};
}

std::int64_t parts_most(const FleetFaults& faults, std::int64_t parts) {
  std::int64_t most = parts;
  for (const FleetFault& fault : faults) {
    if (const auto* resize = std::get_if<MachineResize>(&fault.what)) {
      most = std::max(most, resize->parts);
    }
  }
  return most;
}

}  // namespace causeway::simulate
