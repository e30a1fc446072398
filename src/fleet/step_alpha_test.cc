#include "fleet/step_alpha.h"

#include <gtest/gtest.h>

#include <limits>

namespace causeway::fleet::step_alpha_test {
namespace {

StepSeen seen(double hbm_share, double link_share) {
  return {.took = millis(100),
          .budget = millis(50),
          .hbm = Bytes(static_cast<std::int64_t>(hbm_share * 1e8)),
          .hbm_rate = 1e9,
          .link = nanos_from_seconds(link_share * 0.1)};
}

TEST(StepAlpha, IsParsed) {
  EXPECT_FALSE(parse_step_alpha("tuned").value().fixed);
  EXPECT_EQ(parse_step_alpha("0").value().fixed, 0.0);
  EXPECT_EQ(parse_step_alpha("0.25").value().fixed, 0.25);
  EXPECT_EQ(parse_step_alpha("1").value().fixed, 1.0);
  for (const char* wrong : {"", "best", "-0.1", "1.1", "nan", "inf", "0.5x", " 0.5", "1e999"}) {
    const auto parsed = parse_step_alpha(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << wrong;
  }
}

TEST(StepAlpha, ChecksItsOptions) {
  EXPECT_TRUE(check_step_alpha({}).ok());
  EXPECT_FALSE(check_step_alpha({.fixed = 1.5}).ok());
  EXPECT_FALSE(check_step_alpha({.fixed = std::numeric_limits<double>::quiet_NaN()}).ok());
  EXPECT_FALSE(check_step_alpha({.fixed = {}, .tuner = {.ema = 0}}).ok());
  EXPECT_FALSE(check_step_alpha({.fixed = {}, .tuner = {}, .slo = {.ttft = -seconds(1)}}).ok());
}

TEST(StepAlpha, TurnsTowardsWhatHasRoom) {
  StepAlpha tuned({});
  EXPECT_EQ(tuned.alpha(), 0) << "frugal with the link to begin with";
  for (int i = 0; i < 5; ++i) tuned.step_ended(seen(0.9, 0.1));
  EXPECT_NEAR(tuned.alpha(), 0.5, 1e-9) << "late: by the fast step";
  for (int i = 0; i < 50; ++i) tuned.step_ended(seen(0.1, 0.9));
  EXPECT_EQ(tuned.alpha(), 0);
}

TEST(StepAlpha, StaysWhereItIsFixed) {
  StepAlpha fixed({.fixed = 0.75});
  for (int i = 0; i < 5; ++i) fixed.step_ended(seen(0.9, 0.1));
  EXPECT_EQ(fixed.alpha(), 0.75);
}

TEST(StepAlpha, WhatIsNoMeasurementChangesNothing) {
  StepAlpha tuned({});
  StepSeen none = seen(0.9, 0.1);
  none.took = Nanos(0);
  tuned.step_ended(none);
  StepSeen negative = seen(0.9, -1);
  tuned.step_ended(negative);
  EXPECT_EQ(tuned.alpha(), 0);
}

TEST(StepAlpha, ABudgetIsThePartOfTheTarget) {
  const request::Slo slo{.ttft = seconds(1), .tpot = millis(100)};
  EXPECT_EQ(step_budget(slo, true, 0), millis(100));
  EXPECT_EQ(step_budget(slo, false, 0.25), millis(250));
  EXPECT_EQ(step_budget(slo, true, 0.25), millis(100)) << "the tighter of both";
  EXPECT_EQ(step_budget(slo, true, 0.05), millis(50));
  EXPECT_EQ(step_budget(slo, false, 7), seconds(1)) << "never more than the target";
  EXPECT_EQ(step_budget(slo, false, 0), Nanos(0));
}

}  // namespace
}  // namespace causeway::fleet::step_alpha_test
