#include "device/paced_registration.h"

#include <algorithm>

namespace causeway::device {
namespace {

// Does `work` piece by piece; returns how much was done, which is less when it failed or was
// cancelled. Pieces that are `there` already need no pause.
Bytes in_pieces(HostAddress address, Bytes bytes, const Pace& pace,
                const std::function<bool(HostAddress, Bytes)>& there,
                const std::function<bool(HostAddress, Bytes)>& work) {
  CAUSEWAY_CHECK(pace.busy && pace.cancelled && pace.pause, "a pace lacks a function");
  CAUSEWAY_CHECK(pace.piece.count > 0, "pieces without a size");
  Bytes done;
  bool worked = false;
  while (done < bytes) {
    const Bytes piece = std::min(pace.piece, bytes - done);
    const HostAddress at{address.region, address.offset + done};
    if (!there(at, piece)) {
      if (worked && pace.busy()) pace.pause(pace.pause_busy);
      if (pace.cancelled() || !work(at, piece)) return done;
      worked = true;
    }
    done += piece;
  }
  return done;
}

}  // namespace

Status make_reachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace) {
  Status failed;
  const auto there = [&](HostAddress at, Bytes piece) { return device.is_reachable(at, piece); };
  const Bytes done = in_pieces(address, bytes, pace, there, [&](HostAddress at, Bytes piece) {
    failed = device.make_reachable(at, piece);
    return failed.ok();
  });
  if (!failed.ok() || done >= bytes) return failed;
  return Error{ErrorCode::kCancelled, "making host memory reachable was cancelled after " +
                                          std::to_string(done.count >> 20) + " of " +
                                          std::to_string(bytes.count >> 20) + " MiB"};
}

void make_unreachable_paced(Device& device, HostAddress address, Bytes bytes, const Pace& pace) {
  const auto never = [](HostAddress, Bytes) { return false; };
  in_pieces(address, bytes, pace, never, [&](HostAddress at, Bytes piece) {
    device.make_unreachable(at, piece);
    return true;
  });
}

}  // namespace causeway::device
