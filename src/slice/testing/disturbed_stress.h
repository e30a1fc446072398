// Stress during which copies of weights fail and hang, now and then.
#pragma once

#include "slice/testing/stress.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice::testing {

// How often copies go wrong, and how.
struct Disturbance {
  double quiet = 0.8;  // nothing goes wrong until the next look
  int skip_max = 8;    // fewer good copies than these come first
  double fails = 0.7;  // copies fail; else one hangs
};

// Ends what went wrong before, and perhaps has the next copies fail or hang.
void disturb(Random& random, transfer::testing::FaultPlan& faults, const Disturbance& how);

// Says every few seconds how far it is. Prompts, length of answers and what is expected are the
// caller's to set. The plan of faults outlives it.
StressPlan disturbed_stress(std::uint64_t seed, Nanos length, transfer::testing::FaultPlan& faults);

}  // namespace causeway::slice::testing
