// Bugs planted to check the checkers: tests that look for broken invariants must find each of them.
//
//   if (CAUSEWAY_PLANTED(3)) tokens.back() ^= 1;  // planted bug: …
//
// Only sources that a canary compiles for itself (CAUSEWAY_CANARIES) have them; in the program the
// condition is the constant false.
#pragma once

#ifdef CAUSEWAY_CANARIES
#include "base/testing/planted.h"
#define CAUSEWAY_PLANTED(bug) (::causeway::testing::planted() == (bug))
#else
#define CAUSEWAY_PLANTED(bug) false
#endif
