#include "engine/kv_rotation.h"

#include <gtest/gtest.h>

#include <utility>

namespace causeway::engine::kv_rotation_test {
namespace {

// A link that takes 1 ms for a frame, each way.
class Links final : public StepExecutor {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch, weights::StepWeights) override { return {}; }
  std::optional<request::StepResult> wait(Nanos) override { return std::nullopt; }
  kv::KvCopyRates copy_rates() const override { return {.in = 1e6, .out = 1e6}; }
  void begin_copies(std::span<const kv::KvCopy> copies) override {
    begun.insert(begun.end(), copies.begin(), copies.end());
  }
  std::vector<kv::KvCopyEnd> poll_copies() override { return std::exchange(ends, {}); }

  std::vector<kv::KvCopy> begun;
  std::vector<kv::KvCopyEnd> ends;

 private:
  const Capabilities capabilities_{.rotates = true};
};

class KvRotationBudget : public ::testing::Test {
 protected:
  schedule::RotationBudget budget(Bytes weights_in) {
    return rotation_.inputs({.arriving = weights_in}, Nanos(0)).budget;
  }

  kv::KvCache kv_{{.frames = 1000, .twins = 1000}};
  Links links_;
  KvRotation rotation_{{.frame = Bytes(1000)}, kv_, links_};
};

TEST_F(KvRotationBudget, IsWhatWeightsLeaveOfAStep) {
  EXPECT_EQ(budget(Bytes(0)), (schedule::RotationBudget{.out = 10, .in = 10, .exchange = 10}));
  EXPECT_EQ(budget(Bytes(4000)), (schedule::RotationBudget{.out = 10, .in = 6, .exchange = 6}));
  EXPECT_EQ(budget(gib(1)), (schedule::RotationBudget{.out = 10, .in = 1, .exchange = 1}));
}

TEST_F(KvRotationBudget, FollowsTheTimeOfSteps) {
  for (int i = 0; i < 60; ++i) rotation_.step_took(millis(20), false);
  EXPECT_NEAR(static_cast<double>(budget(Bytes(0)).exchange), 20, 1);
}

// A pass of 40 ms brings 40 kB, of which 10 come during a step of 10 ms.
TEST_F(KvRotationBudget, LeavesAStreamedModelTheShareOfItsPass) {
  for (int i = 0; i < 60; ++i) rotation_.step_took(millis(40), true);
  const auto in = [&](const WeightsIn& weights) {
    return rotation_.inputs(weights, Nanos(0)).budget.in;
  };
  EXPECT_EQ(in({.pass = Bytes(16'000)}), 6);
  EXPECT_EQ(in({.arriving = Bytes(2'000), .pass = Bytes(16'000)}), 4);
  EXPECT_EQ(in({.pass = Bytes(40'000)}), 1) << "it takes all that the link has";
  // Where only such models have requests a step is a pass.
  EXPECT_EQ(in({.pass = Bytes(16'000), .resident = false}), 24);
}

TEST_F(KvRotationBudget, APassThatIsShorterThanAStepCountsAsAWhole) {
  rotation_.step_took(millis(1), true);
  EXPECT_EQ(rotation_.inputs({.pass = Bytes(4'000)}, Nanos(0)).budget.in, 6);
}

TEST_F(KvRotationBudget, BeforeTheFirstPassOfAStreamedModelItsBytesCount) {
  EXPECT_EQ(rotation_.inputs({.pass = Bytes(4'000)}, Nanos(0)).budget.in, 6);
}

TEST(ExpertTraffic, FollowsWhatStepsMissAndLoad) {
  ExpertTraffic traffic;
  weights::ExpertCache::Counters seen;
  EXPECT_EQ(traffic.a_step(), Bytes(0));
  for (int step = 0; step < 100; ++step) {
    seen.hits += 50;
    seen.misses += 6;
    seen.loads += 2;
    traffic.step_ended(seen, Bytes(1'000'000));
  }
  EXPECT_NEAR(static_cast<double>(traffic.a_step().count), 8e6, 100);
  for (int step = 0; step < 200; ++step) traffic.step_ended(seen, Bytes(1'000'000));
  EXPECT_LT(traffic.a_step(), Bytes(10)) << "all that is chosen has slots now";
}

TEST_F(KvRotationBudget, KnowsTheRateOfEachModel) {
  rotation_.set_prefill_rate(ModelId(1), 100);
  EXPECT_EQ(rotation_.prefill_rate(ModelId(1)), 100);
  EXPECT_EQ(rotation_.prefill_rate(ModelId(2)), 0);
  rotation_.forget(ModelId(1));
  EXPECT_EQ(rotation_.prefill_rate(ModelId(1)), 0);
}

// A link that is slower than it promises: what must go later is behind two steps' worth of eager
// copies at the most.
TEST_F(KvRotationBudget, EagerCopiesWaitWhileOthersAreUnderWay) {
  constexpr ModelId kModel(1);
  constexpr std::int64_t kBlocks = 100;
  kv_.add_model(kModel, Tokens(1));
  const std::vector<TokenId> tokens(kBlocks, 7);
  kv_.open(RequestId(0), kModel, tokens);
  ASSERT_TRUE(kv_.grow(RequestId(0), Tokens(kBlocks)));
  kv_.commit(RequestId(0), tokens, StepId(0));
  kv_.step_done(StepId(0));
  const auto step = [&] {
    (void)budget(Bytes(0));
    rotation_.begin_copies();
    return std::ssize(links_.begun);
  };
  EXPECT_EQ(step(), 10) << "what the link moves in a step of 10 ms";
  EXPECT_EQ(step(), 20);
  EXPECT_EQ(step(), 20) << "none has ended";
  for (int i = 0; i < 3; ++i) {
    links_.ends.push_back(
        {links_.begun[static_cast<std::size_t>(i)].id, kv::KvCopyEnd::Outcome::kOk, ""});
  }
  EXPECT_TRUE(rotation_.poll(Nanos(0)).empty());
  EXPECT_EQ(step(), 23);
  // A sequence that must leave does not wait.
  ASSERT_GT(kv_.rotate_out_cost(RequestId(0)).copies, 0);
  ASSERT_TRUE(kv_.rotate_out(RequestId(0), StepId()));
  EXPECT_EQ(step(), kBlocks);
}

}  // namespace
}  // namespace causeway::engine::kv_rotation_test
