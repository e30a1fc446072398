// Time as a parameter. Nothing but RealClock reads the machine's clock; policies take `now`, loops
// take a Clock&, simulations and tests pass a ManualClock.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/units.h"

namespace causeway {

// Thread-safe. Monotonic: never runs backwards; the epoch is arbitrary.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
};

class RealClock final : public Clock {
 public:
  Nanos now() const override;
};

constexpr std::chrono::nanoseconds chrono_of(Nanos time) {
  return std::chrono::nanoseconds(time.count);
}

// How long to ask the system to wait: a day at most, since longer waits would overflow its clocks.
constexpr std::chrono::nanoseconds wait_time(Nanos wanted) {
  return chrono_of(std::clamp(wanted, Nanos(0), seconds(86'400)));
}

// Seconds since 1970 for what users see (`created` fields, logs), not for measuring.
std::int64_t unix_seconds();

class ManualClock final : public Clock {
 public:
  explicit ManualClock(Nanos start = Nanos(0)) : now_(start.count) {}
  Nanos now() const override { return Nanos(now_.load(std::memory_order_acquire)); }
  void advance(Nanos by) { now_.fetch_add(by.count, std::memory_order_acq_rel); }
  void set(Nanos t) { now_.store(t.count, std::memory_order_release); }

 private:
  std::atomic<std::int64_t> now_;
};

}  // namespace causeway
