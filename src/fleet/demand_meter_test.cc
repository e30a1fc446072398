#include "fleet/demand_meter.h"

#include <gtest/gtest.h>

namespace causeway::fleet::demand_meter_test {
namespace {

TEST(DemandMeter, MeasuresASteadyStream) {
  DemandMeter meter;
  EXPECT_EQ(meter.at(seconds(1)).rate, 0);
  for (int i = 0; i < 1000; ++i) {
    meter.arrived(Tokens(i % 2 == 0 ? 100 : 300), millis(250 * i));
    meter.ended(Tokens(50), millis(250 * i + 100));
  }
  const ModelDemand seen = meter.at(seconds(250));
  EXPECT_NEAR(seen.rate, 4, 0.1);
  EXPECT_NEAR(seen.prompt, 200, 2);
  EXPECT_NEAR(seen.output, 50, 1e-6);
}

TEST(DemandMeter, ForgetsWhatIsLongAgo) {
  DemandMeter meter;
  for (int i = 0; i < 1000; ++i) meter.arrived(Tokens(100), millis(100 * i));
  EXPECT_NEAR(meter.at(seconds(100 + 30)).rate, 10 / 2.718, 0.3);
  for (int i = 0; i < 200; ++i) meter.arrived(Tokens(10), seconds(100 + i));
  EXPECT_NEAR(meter.at(seconds(300)).rate, 1, 0.05);
  EXPECT_NEAR(meter.at(seconds(300)).prompt, 10, 3);
}

TEST(DemandMeter, ATimeBeforeTheLastChangesNothing) {
  DemandMeter meter;
  meter.arrived(Tokens(10), seconds(10));
  meter.arrived(Tokens(10), seconds(5));
  EXPECT_NEAR(meter.at(seconds(10)).rate, 2.0 / 30, 1e-9);
}

}  // namespace
}  // namespace causeway::fleet::demand_meter_test
