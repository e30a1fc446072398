// What befalls a simulated fleet, as data: a schedule that is known before it begins, so that the
// same input gives the same report. docs/design/simulate.md says how each is modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::simulate {

// The client of a request goes. No effect before it comes and after it has ended.
struct RequestCancel {
  std::int64_t request = 0;  // its place in the workload
};

// What runs a slice dies, with all that is on it. No effect where none is open under this id, or it
// is lost already.
struct SliceLoss {
  std::int64_t slice = 0;
  Nanos heard = {};                // after the loss: the fleet hears of it
  std::optional<Nanos> back = {};  // after the loss: it serves again, empty; nullopt: never
  bool ends_late = false;          // the fleet hears last of what has ended there before
};

// A machine's link gives less to weights.
struct LinkTrouble {
  std::int64_t machine = 0;
  Nanos lasts = {};
  double share = 0;  // of its rate; 0: it hangs
};

// A machine's slices are closed, and equal ones opened in their place. Asked again until the fleet
// can; no effect while slices are changed already for another reason of the same machine.
struct MachineResize {
  std::int64_t machine = 0;
  std::int64_t parts = 1;
  Nanos drain_max = {};  // what runs there has so long to end
  Nanos reopen = {};     // from then until the others serve
};

// The clock of the fleet, by which limits are counted, goes by so much at once: forwards, or
// backwards where it is negative. Those of slices do not.
struct ClockJump {
  Nanos by;
};

// Nothing that runs on the host is given any time, as if it were stopped: what happens meanwhile is
// seen when it goes on.
struct HostPause {
  Nanos lasts;
};

struct FleetFault {
  Nanos at;
  std::variant<RequestCancel, SliceLoss, LinkTrouble, MachineResize, ClockJump, HostPause> what;
};

using FleetFaults = std::vector<FleetFault>;  // by time

// kInvalidArgument: out of order, or of a machine that is not there, times or shares out of range.
Status check_faults(const FleetFaults& faults, std::int64_t machines, std::int64_t parts_max);

// The most slices that a machine has at once, if it begins with so many.
std::int64_t parts_most(const FleetFaults& faults, std::int64_t parts);

}  // namespace causeway::simulate
