// Waiting for what is a few microseconds away: by asking again and again.
#pragma once

#include <thread>

#include "base/clock.h"

namespace causeway {

// Asks `known` until it says true, for `length` of real time; whether it did. At first without
// giving way to other threads: that alone takes as long as a small copy's last part.
template <typename Known>
bool spin_until(Known known, Nanos length) {
  constexpr Nanos kEager = micros(30);
  constexpr int kLooks = 4;  // between looks at the clock, which take time, too
  if (known()) return true;
  const RealClock clock;
  const Nanos begin = clock.now();
  while (true) {
    for (int look = 0; look < kLooks; ++look) {
      if (known()) return true;
    }
    const Nanos spent = clock.now() - begin;
    if (spent >= length) return false;
    if (spent > kEager) std::this_thread::yield();
  }
}

}  // namespace causeway
