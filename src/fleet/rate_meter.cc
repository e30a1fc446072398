#include "fleet/rate_meter.h"

#include <algorithm>
#include <cmath>

namespace causeway::fleet {

void RateMeter::see(Bytes moved, Nanos busy, Nanos now) {
  if (!(profile_ > 0)) return;
  if (!any_) seen_at_ = called_at_ = now;
  any_ = true;
  const Nanos passed = std::max(Nanos(0), now - called_at_);
  called_at_ = now;
  if (moved > Bytes(0) && busy > Nanos(0)) {
    moved_ += static_cast<double>(moved.count);
    busy_ += to_seconds(busy);
  }
  if (moved_ >= static_cast<double>(kLeast.count)) {
    // Above the profile nothing is believed: what follows a lie counts in full.
    const double fresh = std::min(moved_ / busy_, profile_);
    measured_ += (1 - std::exp(-busy_ / to_seconds(kAverage))) * (fresh - measured_);
    moved_ = busy_ = 0;
    seen_at_ = now;
  } else if (now - seen_at_ > kStale) {
    measured_ +=
        (1 - std::exp(-to_seconds(passed) / to_seconds(kRecovery))) * (profile_ - measured_);
  }
}

double RateMeter::rate() const { return std::clamp(measured_, kFloor * profile_, profile_); }

}  // namespace causeway::fleet
