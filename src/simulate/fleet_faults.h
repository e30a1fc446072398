// The faults of a simulated fleet, as data: a schedule that is known before the simulation begins,
// so that the same input gives the same report. docs/design/simulate.md says how each is modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::simulate {

// The client of a request leaves. No effect before the request has come or after it has ended.
struct RequestCancel {
  std::int64_t request = 0;  // the request's place in the workload
};

// A slice's process or device dies, with everything on it. No effect when no slice is open under
// this id, or the slice is lost already.
struct SliceLoss {
  std::int64_t slice = 0;
  Nanos heard = {};  // time from the loss until the fleet hears of it
  // Time from the loss until the slice serves again, empty; nullopt: it never does.
  std::optional<Nanos> back = {};
  bool ends_late = false;  // the fleet hears of requests that had ended there only after the loss
};

// A machine's link has less bandwidth for weights for a while.
struct LinkTrouble {
  std::int64_t machine = 0;
  Nanos lasts = {};
  double share = 0;  // of the link's rate; 0: the link hangs
};

// A machine's slices are closed, and equal ones are opened in their place. The fleet is asked again
// until it can. No effect while the machine's slices are being changed for another reason.
struct MachineResize {
  std::int64_t machine = 0;
  std::int64_t parts = 1;
  Nanos drain_max = {};  // how long running requests may take to end
  Nanos reopen = {};     // time from then until the new slices serve
};

// The fleet's clock, by which it counts limits, jumps by this much: forwards, or backwards when
// negative. The clocks of slices do not jump.
struct ClockJump {
  Nanos by;
};

// Nothing on the host runs for a while, as if its processes were stopped. What happens meanwhile is
// seen afterwards.
struct HostPause {
  Nanos lasts;
};

struct FleetFault {
  Nanos at;
  std::variant<RequestCancel, SliceLoss, LinkTrouble, MachineResize, ClockJump, HostPause> what;
};

using FleetFaults = std::vector<FleetFault>;  // in the order of time

// kInvalidArgument: the faults are out of order, name a machine that does not exist, or have times
// or shares out of range.
Status check_faults(const FleetFaults& faults, std::int64_t machines, std::int64_t parts_max);

// The most slices that a machine has at the same time, if it begins with `parts`.
std::int64_t parts_most(const FleetFaults& faults, std::int64_t parts);

}  // namespace causeway::simulate
