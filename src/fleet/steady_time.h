// Time that continues where a clock jumps back. A Clock must not do that; if one does, limits that
// were set before the jump still last as long as they should, and nothing waits for the clock to
// catch up. A jump ahead counts as time that has passed, because it cannot be told from a process
// that was stopped.
#pragma once

#include <mutex>

#include "base/clock.h"

namespace causeway::fleet {

class SteadyTime {
 public:
  // The time for a reading of the clock; never less than before.
  Nanos at(Nanos clock) {
    if (clock + skew_ < last_) skew_ = last_ - clock;
    return last_ = clock + skew_;
  }
  // How far this time is ahead of the clock: the sum of all jumps back.
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
