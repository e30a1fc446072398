// What a link gives by what was seen to cross it: the rate with which a placement's sums count.
// Never more than the rate of its profile, which was measured when nothing else used it, and never
// less than a part of that, so that one bad spell does not close it. Pure; any numbers may come.
//
//   rate   profile ───┐            ┌────── nothing was seen for kStale: it recovers, as what made
//                     └────────────┘       it slow may be over
#pragma once

#include "base/units.h"

namespace causeway::fleet {

class RateMeter {
 public:
  static constexpr double kFloor = 1.0 / 8;  // of the profile's rate
  // Smaller amounts are added up first, since a copy's latency would make them look slow.
  static constexpr Bytes kLeast = mib(64);
  static constexpr Nanos kAverage = seconds(1);    // of busy time, of the moving average
  static constexpr Nanos kStale = seconds(30);     // without anything seen
  static constexpr Nanos kRecovery = seconds(30);  // time constant of the way back

  // `profile` in bytes a second; zero: there is no limit, and rate() stays zero.
  explicit RateMeter(double profile) : profile_(profile), measured_(profile) {}

  // Since the last call `moved` bytes crossed, and something was on its way for `busy`. What is
  // zero or negative is no measurement; calls without one let time pass. `now` may be any time.
  void see(Bytes moved, Nanos busy, Nanos now);
  // In bytes a second: from kFloor of the profile's to the profile's.
  double rate() const;
  double profile() const { return profile_; }

 private:
  double profile_;
  double measured_;
  double moved_ = 0, busy_ = 0;  // bytes and seconds that are not in the average yet
  Nanos seen_at_, called_at_;
  bool any_ = false;
};

}  // namespace causeway::fleet
