// Planted bugs, which check the checkers: tests that look for broken invariants must find each of
// them (docs/decisions/0015-planted-bugs.md). The patches in canaries/ beside the sources plant
// them in copies that only these tests compile:
//
//   if (CAUSEWAY_PLANTED(3)) tokens.back() ^= 1;  // planted bug: …
#pragma once

#include <cstdlib>

#define CAUSEWAY_PLANTED(bug) (::causeway::testing::planted() == (bug))

namespace causeway::testing {

// The number of the bug that this run has, from the environment's CAUSEWAY_CANARY; 0: none.
inline int planted() {
  static const int bug = [] {
    const char* const chosen = std::getenv("CAUSEWAY_CANARY");
    return chosen != nullptr ? std::atoi(chosen) : 0;
  }();
  return bug;
}

}  // namespace causeway::testing
