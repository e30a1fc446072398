// Time that goes on where a clock jumps back. A Clock is not to do that; should one all the same,
// limits that were set before the jump are still reached after as long as they say, and nothing
// waits for the clock to catch up. A jump ahead is time that has passed: it cannot be told from a
// process that stood still.
#pragma once

#include <mutex>

#include "base/clock.h"

namespace causeway::fleet {

class SteadyTime {
 public:
  // Never less than before.
  Nanos at(Nanos clock) {
    if (clock + skew_ < last_) skew_ = last_ - clock;
    return last_ = clock + skew_;
  }
  // How far it is ahead of the clock, by all that this has jumped back.
  Nanos skew() const { return skew_; }

 private:
  Nanos last_;
  Nanos skew_;
};

// Thread-safe.
class SteadyClock final : public Clock {
 public:
  // Borrowed.
  explicit SteadyClock(const Clock& clock) : clock_(clock) {}
  Nanos now() const override {
    const std::scoped_lock lock(mutex_);
    return time_.at(clock_.now());
  }

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable SteadyTime time_;
};

}  // namespace causeway::fleet
