#include "schedule/hbm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace causeway::schedule {
namespace {

using ::testing::HasSubstr;

HbmDemand demand() {
  return {.total = gib(140),
          .free = gib(138),
          .utilization = 0.9,
          .extent = mib(32),
          .workspace = mib(100),
          .weights = gib(16),
          .driver = {},
          .kv = {},
          .kv_min = mib(4)};
}

TEST(HbmPlan, KvGetsWhatIsLeftInWholeExtents) {
  const auto plan = plan_hbm(demand());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->budget, gib(124));  // 0.9 × 140 less the 2 that others use
  EXPECT_EQ(plan->workspace, mib(128));
  EXPECT_EQ(plan->weights, gib(16));
  EXPECT_EQ(plan->kv, gib(108) - mib(128));
}

TEST(HbmPlan, KvGetsWhatWasAskedFor) {
  HbmDemand d = demand();
  d.kv = mib(100);
  EXPECT_EQ(plan_hbm(d)->kv, mib(128));
}

TEST(HbmPlan, WhatTheDriverTakesIsNotGivenAway) {
  HbmDemand d = demand();
  d.driver = mib(500);
  const auto plan = plan_hbm(d);
  EXPECT_EQ(plan->kv, gib(108) - mib(128) - mib(512));  // in whole extents
  EXPECT_LE(plan->kv + plan->weights + plan->workspace + d.driver, plan->budget);
  d.driver = gib(108);
  EXPECT_THAT(plan_hbm(d).error().message, HasSubstr("the driver 110592 MiB"));
}

TEST(HbmPlan, NeverMoreThanIsFree) {
  HbmDemand d = demand();
  d.utilization = 1;
  d.free = gib(20);
  EXPECT_EQ(plan_hbm(d)->budget, gib(20));
}

TEST(HbmPlan, TooLittleNamesTheNumbersAndTheWayOut) {
  HbmDemand d = demand();
  d.weights = gib(130);
  const auto plan = plan_hbm(d);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  for (const char* part :
       {"143360 MiB", "141312 MiB", "126976 MiB", "133120 MiB", "--gpu-memory-utilization"}) {
    EXPECT_THAT(plan.error().message, HasSubstr(part));
  }
  d.free = gib(1);  // others use more than the share already
  EXPECT_FALSE(plan_hbm(d).ok());
}

TEST(HbmPlan, NonsenseIsRefused) {
  HbmDemand d = demand();
  for (const double share : {0.0, -1.0, 1.01, std::nan("")}) {
    d.utilization = share;
    EXPECT_EQ(plan_hbm(d).error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace causeway::schedule
