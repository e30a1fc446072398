#include "request/slo.h"

#include <gtest/gtest.h>

#include <cmath>

namespace causeway::request::slo_test {
namespace {

TEST(Slo, IsGoodByDefaultAndAtItsLimits) {
  EXPECT_TRUE(check_slo({}).ok());
  EXPECT_TRUE(check_slo({.ttft = Nanos(1), .tpot = seconds(86'400)}).ok());
  EXPECT_TRUE(check_slo({.ttft_slack = 0, .tpot_slack = -10}).ok());
  EXPECT_TRUE(check_slo({.ttft_slack = 1, .tpot_slack = 1}).ok());
}

TEST(Slo, IsRefusedWithTheRangeOutsideOfIt) {
  EXPECT_FALSE(check_slo({.ttft = Nanos(0)}).ok());
  EXPECT_FALSE(check_slo({.tpot = Nanos(-1)}).ok());
  EXPECT_FALSE(check_slo({.ttft = seconds(1'000'000'000)}).ok());
  EXPECT_FALSE(check_slo({.ttft_slack = -0.1}).ok());
  EXPECT_FALSE(check_slo({.ttft_slack = std::nan("")}).ok());
  EXPECT_FALSE(check_slo({.tpot_slack = -10.5}).ok());
  const Status high = check_slo({.tpot_slack = 1.5});
  ASSERT_FALSE(high.ok());
  EXPECT_NE(high.error().message.find("-10"), std::string::npos) << high.error().message;
}

}  // namespace
}  // namespace causeway::request::slo_test
