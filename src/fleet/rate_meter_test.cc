#include "fleet/rate_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace causeway::fleet::rate_meter_test {
namespace {

constexpr double kProfile = 50e9;

// A second in which the link was busy for `busy`, at `rate`.
void pass(RateMeter& meter, double rate, Nanos busy, Nanos& now) {
  now += seconds(1);
  meter.see(Bytes(static_cast<std::int64_t>(rate * to_seconds(busy))), busy, now);
}

TEST(RateMeter, FollowsWhatIsSeen) {
  RateMeter meter(kProfile);
  Nanos now;
  EXPECT_EQ(meter.rate(), kProfile) << "nothing was seen";
  for (int i = 0; i < 10; ++i) pass(meter, 25e9, millis(800), now);
  EXPECT_NEAR(meter.rate(), 25e9, 0.1e9);
  for (int i = 0; i < 10; ++i) pass(meter, 50e9, millis(800), now);
  EXPECT_NEAR(meter.rate(), 50e9, 0.1e9) << "it is as good as before";
}

TEST(RateMeter, IsNeverAboveItsProfileNorBelowTheFloor) {
  RateMeter meter(kProfile);
  Nanos now;
  for (int i = 0; i < 10; ++i) pass(meter, 500e9, millis(800), now);
  EXPECT_EQ(meter.rate(), kProfile);
  for (int i = 0; i < 60; ++i) pass(meter, 0.5e9, millis(900), now);
  EXPECT_EQ(meter.rate(), RateMeter::kFloor * kProfile);
}

TEST(RateMeter, RecoversWhenNothingIsSeen) {
  RateMeter meter(kProfile);
  Nanos now;
  for (int i = 0; i < 10; ++i) pass(meter, 10e9, millis(800), now);
  for (int i = 0; i < 29; ++i) pass(meter, 0, Nanos(0), now);
  EXPECT_NEAR(meter.rate(), 10e9, 0.5e9) << "for a while it is believed";
  for (int i = 0; i < 120; ++i) pass(meter, 0, Nanos(0), now);
  EXPECT_GT(meter.rate(), 0.9 * kProfile);
}

TEST(RateMeter, SmallAmountsCountTogether) {
  RateMeter meter(kProfile);
  Nanos now;
  meter.see(kib(4), millis(10), now);
  EXPECT_EQ(meter.rate(), kProfile) << "a latency, no rate";
  for (int i = 0; i < 1000; ++i) pass(meter, 5e9, millis(5), now);
  EXPECT_LT(meter.rate(), 0.2 * kProfile) << "25 MB each";
}

TEST(RateMeter, WithoutALimitThereIsNone) {
  RateMeter none(0);
  none.see(gib(1), seconds(1), seconds(1));
  EXPECT_EQ(none.rate(), 0);
}

TEST(RateMeter, LiesLeaveItWithinItsBounds) {
  Random random(7);
  for (int history = 0; history < 300; ++history) {
    RateMeter meter(kProfile);
    for (int i = 0; i < 100; ++i) {
      const auto any = [&]() -> std::int64_t {
        switch (random.below(5)) {
          case 0: return 0;
          case 1: return -random.between(1, INT64_MAX / 4);
          case 2: return INT64_MAX / 4;
          case 3: return 1;
          default: return random.between(1, INT64_MAX / 4);
        }
      };
      meter.see(Bytes(any()), Nanos(any()), Nanos(any()));
      ASSERT_TRUE(std::isfinite(meter.rate()));
      ASSERT_GE(meter.rate(), RateMeter::kFloor * kProfile);
      ASSERT_LE(meter.rate(), kProfile);
    }
  }
}

}  // namespace
}  // namespace causeway::fleet::rate_meter_test
