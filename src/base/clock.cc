#include "base/clock.h"

#include <chrono>

#include "base/wall_clock.h"

namespace causeway {

Nanos RealClock::now() const {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();  // tidy: clock
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

Nanos unix_time() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();  // tidy: clock
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

std::int64_t unix_seconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();  // tidy: clock
  return std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
}

}  // namespace causeway
