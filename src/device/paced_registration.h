// Makes large host memory reachable for a device while it serves: launches wait for a registration
// (on an H200 55 ms for 1 GiB, 0.4 ms for 8 MiB), so that a busy device gets it in small pieces
// with pauses, 5 to 6 GB/s, and an idle one in large pieces.
#pragma once

#include <functional>

#include "device/device.h"

namespace causeway::device {

struct Pace {
  Bytes piece_busy = mib(8);
  Nanos pause_busy = millis(1);
  Bytes piece_idle = mib(256);  // what work that begins meanwhile may wait for
  // Asked before each piece. All three must be set.
  std::function<bool()> busy;        // whether work runs that would wait
  std::function<bool()> cancelled;   // whether to give up
  std::function<void(Nanos)> pause;  // sleeps; may end early
};

// Registers [address, address + bytes), which must lie inside its region, in pieces from the
// beginning. Blocks; on a thread of the caller's. kCancelled when `cancelled` says so: what is
// registered stays so. Otherwise as Device::make_reachable().
Status make_reachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace);

}  // namespace causeway::device
