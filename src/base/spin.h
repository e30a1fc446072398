// Waiting by polling, for events that are a few microseconds away.
#pragma once

#include <thread>

#include "base/clock.h"

namespace causeway {

// Polls `known` until it returns true, for at most `length` of real time; returns whether it did.
// The first polls do not yield to other threads, because a yield alone takes as long as the last
// part of a small copy.
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
