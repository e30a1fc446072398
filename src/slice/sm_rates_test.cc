#include "slice/sm_rates.h"

#include <gtest/gtest.h>

namespace causeway::slice::sm_rates_test {
namespace {

constexpr double kH100Peak = 3.352e12, kH200Peak = 4.9e12;
constexpr int kSms = 132;

// What products read of it: 3.10 and 4.42 TB/s (simulate/hardware_profile.cc), and a step less.
TEST(SmRates, AGpuIsCountedWithWhatItsOwnMemoryGives) {
  EXPECT_NEAR(bytes_per_sm(kH100Peak, kSms) * kSms, 2.85e12, 0.03e12);
  EXPECT_NEAR(bytes_per_sm(kH200Peak, kSms) * kSms, 4.09e12, 0.03e12);
}

TEST(SmRates, AnUnknownPeakIsAnH200s) {
  for (const double peak : {0.0, -1.0}) EXPECT_EQ(bytes_per_sm(peak, kSms), kBytesPerSm);
  EXPECT_EQ(bytes_per_sm(kH100Peak, 0), kBytesPerSm);
}

// A seventh of a GPU that is shown with all of its bus.
TEST(SmRates, APartDoesNotReadWhatTheWholeDoes) {
  EXPECT_EQ(bytes_per_sm(kH100Peak, 16), kBytesPerSm);
}

TEST(SmRates, APartAloneReadsMoreThanItsShareAndNeverMoreThanAll) {
  double before = 0;
  for (int sms = 4; sms <= kSms; sms += 4) {
    const double share = static_cast<double>(sms) / kSms;
    const double alone = bandwidth_alone(share);
    EXPECT_GE(alone, share) << sms;
    EXPECT_GT(alone, before) << sms;
    before = alone;
  }
  EXPECT_EQ(bandwidth_alone(1), 1);
}

}  // namespace
}  // namespace causeway::slice::sm_rates_test
