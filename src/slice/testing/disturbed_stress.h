// Stress during which copies of weights fail and hang, now and then.
#pragma once

#include "slice/testing/stress.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice::testing {

// Says every few seconds how far it is. Prompts, length of answers and what is expected are the
// caller's to set. The plan of faults outlives it.
StressPlan disturbed_stress(std::uint64_t seed, Nanos length, transfer::testing::FaultPlan& faults);

}  // namespace causeway::slice::testing
