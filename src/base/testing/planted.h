// The number of the planted bug (canary.h) that this run of a canary has, from the environment's
// CAUSEWAY_CANARY. 0: none.
#pragma once

#include <cstdlib>

namespace causeway::testing {

inline int planted() {
  static const int bug = [] {
    const char* const chosen = std::getenv("CAUSEWAY_CANARY");
    return chosen != nullptr ? std::atoi(chosen) : 0;
  }();
  return bug;
}

}  // namespace causeway::testing
