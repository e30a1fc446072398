// A decision of a fleet of 1,000 slices and 10,000 models takes 10 µs at most. It takes 0.4 in the
// median and 6 at p99 (`fleet_bench`, two cores): this fails where that has become a multiple, with
// room for a machine that does other things as well.
#include <gtest/gtest.h>

#include "base/testing/rounds.h"
#include "fleet/testing/large_fleet.h"

namespace causeway::fleet::decision_time_test {
namespace {

constexpr Nanos kMedianMax = micros(4);
constexpr Nanos kP99Max = micros(400);

// Events after the fleet has settled.
void expect_quick(const testing::LargeFleetScenario& scenario) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: times of one thread";
  constexpr int kEvents = 20'000;
  testing::LargeFleet fleet(scenario);
  for (int i = 0; i < kEvents; ++i) fleet.happen();
  ASSERT_EQ(fleet.decisions().count(), kEvents);
  const Nanos median(fleet.decisions().percentile(0.5));
  const Nanos p99(fleet.decisions().percentile(0.99));
  EXPECT_LE(median, kMedianMax);
  EXPECT_LE(p99, kP99Max);
  EXPECT_GT(fleet.counters().routed, 10'000) << "it did decide";
}

TEST(DecisionTime, OfModelsInHostMemoryIsShort) { expect_quick({.moves = true, .running = 500}); }
TEST(DecisionTime, OfModelsThatComeAndGoIsShort) { expect_quick({.moves = false, .running = 500}); }

}  // namespace
}  // namespace causeway::fleet::decision_time_test
