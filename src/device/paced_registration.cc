#include "device/paced_registration.h"

#include <algorithm>

namespace causeway::device {

Status make_reachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace) {
  CAUSEWAY_CHECK(pace.busy && pace.cancelled && pace.pause, "a pace lacks a function");
  CAUSEWAY_CHECK(pace.piece_busy.count > 0 && pace.piece_idle.count > 0, "pieces have a size");
  for (Bytes done; done < bytes;) {
    const bool busy = pace.busy();
    if (busy && done.count > 0) pace.pause(pace.pause_busy);
    if (pace.cancelled()) {
      return Error{ErrorCode::kCancelled, "making host memory reachable was cancelled after " +
                                              std::to_string(done.count >> 20) + " of " +
                                              std::to_string(bytes.count >> 20) + " MiB"};
    }
    const Bytes piece = std::min(busy ? pace.piece_busy : pace.piece_idle, bytes - done);
    CAUSEWAY_TRY(device.make_reachable({address.region, address.offset + done}, piece));
    done += piece;
  }
  return {};
}

}  // namespace causeway::device
