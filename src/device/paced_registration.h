// Makes large host memory reachable for a device while it serves, and undoes that. Launches wait
// for a registration (on an H200 27 ms for 1 GiB, 0.2 ms for 4 MiB), so a busy device gets it in
// small pieces with pauses, at 3.5 GB/s, and an idle one without pauses. The pieces are always
// small, because what was registered in one call can only be unregistered in one, and the device
// may be busy by then. Memory that is reachable already, for example for another slice, is skipped.
//
// A killed process ends no sooner than the driver has taken back each piece: 90 GiB take 2.2 s in
// pieces of 4 MiB, 1.2 s of 16 MiB, 1.1 s of 64 MiB. So a process that is to be replaced soon
// after its end takes larger ones. Between tokens of a model that decodes, the p99 grows by what
// one piece takes.
#pragma once

#include <functional>

#include "device/device.h"

namespace causeway::device {

struct Pace {
  Bytes piece = mib(4);  // work that begins meanwhile may wait for one piece
  Nanos pause_busy = millis(1);
  // Called before each piece. All three must be set.
  std::function<bool()> busy;        // whether work runs that would wait
  std::function<bool()> cancelled;   // whether to give up
  std::function<void(Nanos)> pause;  // sleeps; may end early
};

// Registers [address, address + bytes), which must lie inside its region, in pieces from the
// beginning. Blocks; runs on the caller's thread. kCancelled when `cancelled` returns true; what is
// registered stays so. Otherwise as Device::make_reachable().
Status make_reachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace);

// Unregisters in the same pieces, before the region is released. The range must not be in use any
// more. When `cancelled` returns true the rest is left to the release, which does it at once.
void make_unreachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace);

}  // namespace causeway::device
