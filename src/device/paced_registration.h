// Makes large host memory reachable for a device while it serves, and takes that back: launches
// wait for a registration (on an H200 55 ms for 1 GiB, 0.2 ms for 4 MiB), so that a busy device
// gets it in small pieces with pauses, 3 GB/s, and an idle one without pauses. The pieces are
// small in any case: what was registered in one call can only be unregistered in one, and the
// device may be busy by then. What is reachable already, for another slice, say, is passed over.
#pragma once

#include <functional>

#include "device/device.h"

namespace causeway::device {

struct Pace {
  Bytes piece = mib(4);  // for which work that begins meanwhile may wait
  Nanos pause_busy = millis(1);
  // Asked before each piece. All three must be set.
  std::function<bool()> busy;        // whether work runs that would wait
  std::function<bool()> cancelled;   // whether to give up
  std::function<void(Nanos)> pause;  // sleeps; may end early
};

// Registers [address, address + bytes), which must lie inside its region, in pieces from the
// beginning. Blocks; on a thread of the caller's. kCancelled when `cancelled` says so: what is
// registered stays so. Otherwise as Device::make_reachable().
Status make_reachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace);

// Takes it back in the same pieces, before the region is released. The range is not used any more.
// When `cancelled` says so it leaves the rest to the release, which does it at once.
void make_unreachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace);

}  // namespace causeway::device
