#include "schedule/rotation_budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace causeway::schedule::rotation_budget_test {
namespace {

// A step of 20 ms on 50 GB/s each way: 1 GB, of 4 MB frames 250.
LinkFacts plain() {
  return {.out_rate = 50e9,
          .in_rate = 50e9,
          .step = millis(20),
          .weights_in = {},
          .eager_out = {},
          .frame = Bytes(4'000'000),
          .frames = 20'000};
}

TEST(RotationBudget, IsWhatTheLinkMovesInAStep) {
  EXPECT_EQ(rotation_budget(plain()), (RotationBudget{.out = 250, .in = 250, .exchange = 250}));
}

TEST(RotationBudget, LeavesWeightsAndEagerCopiesWhatTheyNeed) {
  LinkFacts facts = plain();
  facts.weights_in = Bytes(600'000'000);
  facts.eager_out = Bytes(200'000'000);
  EXPECT_EQ(rotation_budget(facts), (RotationBudget{.out = 200, .in = 100, .exchange = 100}));
}

TEST(RotationBudget, KeepsAShareOfALinkThatWeightsWouldFill) {
  LinkFacts facts = plain();
  facts.weights_in = gib(40);
  EXPECT_EQ(rotation_budget(facts).in, 25);
  EXPECT_EQ(rotation_budget(facts, {.rate_share_min = 0.0}).in, 1) << "a frame in any case";
}

TEST(RotationBudget, IsAtMostFivePercentOfTheFrames) {
  LinkFacts facts = plain();
  facts.frames = 1'000;
  const RotationBudget budget = rotation_budget(facts);
  EXPECT_EQ(budget.exchange, 50);
  EXPECT_EQ(budget.in, 250) << "copies of what comes back alone are not bound by it";
  facts.frames = 7;
  EXPECT_EQ(rotation_budget(facts).exchange, 1);
}

TEST(RotationBudget, IsNothingWhenOneWayIsDead) {
  for (const double rate : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    LinkFacts facts = plain();
    facts.in_rate = rate;
    EXPECT_FALSE(rotation_budget(facts).rotates()) << rate;
  }
}

TEST(RotationBudget, SurvivesAbsurdTimes) {
  LinkFacts facts = plain();
  facts.step = Nanos(-5);
  EXPECT_EQ(rotation_budget(facts).exchange, 1);
  facts.step = seconds(1'000'000'000);
  EXPECT_EQ(rotation_budget(facts).in, facts.frames);
}

TEST(RotationBudget, GrowsWithTheStepAndNeverShrinks) {
  std::int64_t before = 0;
  for (int ms = 0; ms < 200; ++ms) {
    LinkFacts facts = plain();
    facts.step = millis(ms);
    const std::int64_t exchange = rotation_budget(facts).exchange;
    EXPECT_GE(exchange, before);
    before = exchange;
  }
  EXPECT_EQ(before, 1'000);
}

TEST(VictimCost, IsTheTimeOfBothCopiesOrOfThePrompt) {
  const CostRates rates{.out_rate = 4e9, .in_rate = 8e9, .frame = Bytes(4'000'000)};
  const VictimCost cost{
      .copies_out = 1, .copies_in = 100, .computed = Tokens(3'200), .prefill_rate = 10'000};
  EXPECT_DOUBLE_EQ(seconds_to_rotate(cost, rates), 0.001 + 0.05);
  EXPECT_DOUBLE_EQ(seconds_to_recompute(cost), 0.32);
  EXPECT_FALSE(cheaper_to_recompute(cost, rates));
  const VictimCost small{
      .copies_out = 1, .copies_in = 1, .computed = Tokens(2), .prefill_rate = 10'000};
  EXPECT_TRUE(cheaper_to_recompute(small, rates));
}

TEST(VictimCost, WithoutRatesIsTheOtherWay) {
  VictimCost cost{.copies_out = 2, .copies_in = 2, .computed = Tokens(10)};
  CostRates rates{.out_rate = 4e9, .in_rate = 4e9, .frame = Bytes(4'000'000)};
  EXPECT_FALSE(cheaper_to_recompute(cost, rates));
  cost.prefill_rate = 1;
  rates.in_rate = 0;
  EXPECT_TRUE(cheaper_to_recompute(cost, rates));
}

}  // namespace
}  // namespace causeway::schedule::rotation_budget_test
