#include "schedule/hbm_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace causeway::schedule::hbm_plan_test {
namespace {

using ::testing::HasSubstr;

HbmDemand demand() {
  return {.total = gib(140),
          .free = gib(138),
          .utilization = 0.9,
          .extent = mib(32),
          .workspace = mib(100),
          .weights = gib(16),
          .weights_largest = gib(16),
          .weights_pinned = {},
          .weights_wanted = {},
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

TEST(HbmPlan, TheBorderMovesOnlyWhereNothingWasAskedFor) {
  HbmDemand d = demand();
  d.weights = gib(400);
  d.weights_largest = gib(16);
  const HbmPlan plan = plan_hbm(d).value();
  EXPECT_TRUE(plan.border_moves());
  EXPECT_LE(plan.kv_least, plan.kv / 4);
  EXPECT_GT(plan.kv_least, plan.kv / 4 - d.extent);
  EXPECT_EQ(plan.kv_least % d.extent, Bytes(0));
  EXPECT_EQ(plan.kv_most, plan.kv + plan.weights - gib(16));
  EXPECT_EQ(plan.weights_most() + plan.kv_least, plan.weights + plan.kv);
  d.weights_pinned = gib(20);
  EXPECT_EQ(plan_hbm(d)->kv_most, plan.kv + plan.weights - gib(36));
  d.weights_pinned = gib(300);
  EXPECT_EQ(plan_hbm(d)->kv_most, plan.kv);
  for (const bool kv : {false, true}) {
    HbmDemand asked = demand();
    (kv ? asked.kv : asked.weights_wanted) = gib(30);
    EXPECT_FALSE(plan_hbm(asked)->border_moves());
    EXPECT_EQ(plan_hbm(asked)->kv_least, plan_hbm(asked)->kv);
  }
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

// Two slices of 5/8 and 3/8: what one has when the other opens changes nothing, what others have
// is taken from both.
TEST(HbmPlan, APartGetsItsShareWhicheverOpensFirst) {
  HbmDemand large = demand(), small = demand();
  large.share = 0.625;
  small.share = 0.375;
  const HbmPlan first = plan_hbm(large).value(), second = plan_hbm(small).value();
  EXPECT_EQ(first.budget, mib(124 * 640));  // of 0.9 × 140 less 2, in GiB
  EXPECT_EQ(second.budget, mib(124 * 384));
  for (const Bytes has : {gib(1), gib(30), first.budget}) {
    HbmDemand later = small;
    later.free -= has;
    later.neighbours = has;
    EXPECT_EQ(plan_hbm(later)->budget, second.budget);
    EXPECT_EQ(plan_hbm(later)->kv, second.kv);
    later.free -= gib(8);  // another process
    EXPECT_EQ(plan_hbm(later)->budget, mib(116 * 384));
  }
  small.neighbours = gib(100);  // more than is used: no more than all
  EXPECT_EQ(plan_hbm(small)->budget, mib(126 * 384));
  small.free = gib(20);
  EXPECT_EQ(plan_hbm(small)->budget, gib(20));
  small.weights = small.weights_largest = gib(60);
  EXPECT_THAT(plan_hbm(small).error().message, HasSubstr("by a slice that is 37 % of it"));
}

TEST(HbmPlan, NeverMoreThanIsFree) {
  HbmDemand d = demand();
  d.utilization = 1;
  d.free = gib(20);
  EXPECT_EQ(plan_hbm(d)->budget, gib(20));
}

TEST(HbmPlan, TooLittleNamesTheNumbersAndTheWayOut) {
  HbmDemand d = demand();
  d.weights = d.weights_largest = gib(130);
  const auto plan = plan_hbm(d);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
  for (const char* part :
       {"143360 MiB", "141312 MiB", "126976 MiB", "133120 MiB", "more of the GPU's memory"}) {
    EXPECT_THAT(plan.error().message, HasSubstr(part));
  }
  d.free = gib(1);  // others use more than the share already
  EXPECT_FALSE(plan_hbm(d).ok());
}

TEST(HbmPlan, ACatalogueLargerThanHbmIsCachedInAShareOfIt) {
  HbmDemand d = demand();
  d.weights = gib(1000);
  const auto plan = plan_hbm(d);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Bytes shared = plan->budget - plan->workspace;
  EXPECT_EQ(plan->weights, mib(32) * (shared * 3 / 4 / mib(32)));
  EXPECT_EQ(plan->weights + plan->kv, shared);
  d.weights_largest = gib(110);  // more than the share: KV gets what is left
  EXPECT_EQ(plan_hbm(d)->weights, gib(110));
  d.weights_largest = gib(16);
  d.kv = gib(4);  // weights get the rest
  EXPECT_EQ(plan_hbm(d)->weights, shared - gib(4));
}

TEST(HbmPlan, WeightsGetWhatWasAskedFor) {
  HbmDemand d = demand();
  d.weights = gib(1000);
  d.weights_wanted = gib(20);
  const auto plan = plan_hbm(d);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->weights, gib(20));
  EXPECT_EQ(plan->kv, plan->budget - plan->workspace - gib(20));
  d.weights = gib(18);  // no more than all models take
  EXPECT_EQ(plan_hbm(d)->weights, gib(18));
  d.weights_wanted = gib(10);
  const auto refused = plan_hbm(d);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("16384 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("10240 MiB"));
  d.weights_wanted = d.total + mib(1);
  EXPECT_THAT(plan_hbm(d).error().message, HasSubstr("cached weights are to have"));
}

TEST(HbmPlan, NonsenseIsRefused) {
  HbmDemand d = demand();
  for (const double share : {0.0, -1.0, 1.01, std::nan("")}) {
    d.utilization = share;
    EXPECT_EQ(plan_hbm(d).error().code, ErrorCode::kInvalidArgument);
    HbmDemand part = demand();
    part.share = share;
    EXPECT_EQ(plan_hbm(part).error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace causeway::schedule::hbm_plan_test
