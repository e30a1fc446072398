// Bugs planted to check the checkers: tests that look for broken invariants must find each of them.
//
//   if (CAUSEWAY_PLANTED(3)) tokens.back() ^= 1;  // planted bug: …
//
// Only sources that a canary compiles for itself (CAUSEWAY_CANARIES) have them; in the program the
// condition is the constant false.
#pragma once

#ifdef CAUSEWAY_CANARIES
#include <cstdlib>

namespace causeway::canaries {

// The bug that this run of a canary has, of the environment's CAUSEWAY_CANARY; 0: none.
inline int planted() {
  static const int bug = [] {
    const char* const chosen = std::getenv("CAUSEWAY_CANARY");
    return chosen != nullptr ? std::atoi(chosen) : 0;
  }();
  return bug;
}

}  // namespace causeway::canaries

#define CAUSEWAY_PLANTED(bug) (::causeway::canaries::planted() == (bug))
#else
#define CAUSEWAY_PLANTED(bug) false
#endif
