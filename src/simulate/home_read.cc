#include "simulate/home_read.h"

#include <algorithm>

namespace causeway::simulate {

double home_rate(const HardwareProfile& profile) {
  return profile.home_bytes_per_second > 0 ? profile.home_bytes_per_second
                                           : profile.link_bytes_per_second;
}

HomeRead read_beside(std::span<const LinkUse> copies, Nanos at, Nanos takes) {
  Nanos now = at, left = takes, delays;
  for (const LinkUse& copy : copies) {
    const Nanos lasts = copy.end - std::max(copy.begin, at);
    if (lasts <= Nanos(0)) continue;
    const Nanos begins = std::max(std::max(copy.begin, at) + delays, now);
    if (left <= begins - now) break;
    left -= begins - now;
    const Nanos both = std::min(left, lasts);
    now = begins + both * 2;
    left -= both;
    delays += both;
  }
  return {.end = now + left, .delays = delays};
}

}  // namespace causeway::simulate
