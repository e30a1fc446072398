// Sequences whose output must match a grammar, with matchers that the test controls: they are held
// from the step that samples them until their mask is there, and are never in two steps at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/engine_core.h"
#include "engine/testing/core_requests.h"
#include "engine/testing/told_matcher.h"
#include "request/banned_words.h"

namespace causeway::engine::core_masks_test {
namespace {

using request::MaskState;
using ::testing::HasSubstr;

class CoreMasks : public ::testing::Test {
 protected:
  explicit CoreMasks(const schedule::Options& schedule = {})
      : core_({.frames = 64, .schedule = schedule}, executor_) {
    EXPECT_TRUE(core_.add_model(kModel, kFacts).ok());
  }

  void submit(std::int64_t id, bool formed, std::vector<TokenId> output = {}) {
    request::Request request = make_request(id, 3, 40);
    if (formed) request.constraint = std::make_shared<ToldConstraint>(told_);
    request.output = std::move(output);
    const Status taken = core_.submit(std::move(request), now_);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
  }
  void end_step() {
    core_.finish_step(executor_.end_oldest(), now_);
    EXPECT_TRUE(core_.check_integrity().ok());
    core_.start_step(now_);
  }
  const request::LogitEdits& edits(std::size_t step, std::size_t entry) const {
    return executor_.batches.at(step).entries.at(entry).edits;
  }

  Told told_;
  SlowExecutor executor_;
  EngineCore core_;
  Nanos now_{0};
};

// Banned words, unlike a form, do not end the answer, so a least number of tokens may be asked for.
TEST_F(CoreMasks, BannedWordsAreMasksBesideAMinimumOfTokens) {
  request::Request request = make_request(1, 3, 40);
  request.stop_tokens = {7};
  request.min_tokens = Tokens(2);
  auto banned = request::ban_words({2000, {{100, 100}}});
  ASSERT_TRUE(banned.ok());
  request.constraint = *banned;
  const Status taken = core_.submit(std::move(request), now_);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  core_.start_step(now_);
  const auto allows_100 = [&] { return (edits(0, 0).mask.at(100 / 32) >> (100 % 32) & 1) != 0; };
  EXPECT_TRUE(allows_100());
  end_step();  // with token 100
  EXPECT_FALSE(allows_100());
  EXPECT_EQ(edits(0, 0).banned, (std::vector<TokenId>{7}));
  EXPECT_EQ(executor_.batches.size(), 1u) << "never in two steps at once";
}

// With rotation another plan makes the decisions.
class RotaryCoreMasks : public CoreMasks {
 protected:
  RotaryCoreMasks() : CoreMasks({.policy = schedule::PolicyKind::kRotary}) {}
};

TEST_F(RotaryCoreMasks, OthersKeepTwoStepsInFlight) {
  submit(1, true);
  submit(2, false);
  core_.start_step(now_);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(executor_.batches.size(), 2u);
    EXPECT_EQ(executor_.steps_of(2), (std::vector<int>{0, 1}));
    EXPECT_EQ(executor_.steps_of(1).size(), 1u);
    end_step();
  }
  EXPECT_EQ(told_.tokens.size(), 5u);
  told_.state = MaskState::kComputing;
  for (int i = 0; i < 4; ++i) end_step();
  EXPECT_TRUE(executor_.steps_of(1).empty());
  told_.state = MaskState::kReady;
  end_step();
  EXPECT_EQ(executor_.steps_of(1).size(), 1u);
}

TEST_F(RotaryCoreMasks, AloneItIsInOneStepAtATime) {
  submit(1, true);
  core_.start_step(now_);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(executor_.batches.size(), 1u);
    end_step();
  }
  EXPECT_EQ(told_.tokens.size(), 30u);
}

TEST_F(CoreMasks, AloneItIsInOneStepAtATime) {
  submit(1, true);
  core_.start_step(now_);
  ASSERT_EQ(executor_.batches.size(), 1u) << "its next token needs the mask behind this one";
  EXPECT_EQ(edits(0, 0).mask.size(), 63u);
  EXPECT_EQ(edits(0, 0).mask[0], 0u);
  end_step();
  EXPECT_EQ(told_.tokens, std::vector<TokenId>{100});
  ASSERT_EQ(executor_.batches.size(), 1u);
  EXPECT_EQ(edits(0, 0).mask[0], 1u) << "the mask behind the first token";
}

TEST_F(CoreMasks, OthersKeepTwoStepsInFlight) {
  submit(1, true);
  submit(2, false);
  core_.start_step(now_);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(executor_.batches.size(), 2u);
    EXPECT_EQ(executor_.steps_of(2), (std::vector<int>{0, 1}));
    EXPECT_EQ(executor_.steps_of(1).size(), 1u);
    end_step();
  }
  EXPECT_EQ(told_.tokens.size(), 5u) << "every second step has it";
  for (const request::BatchEntry& entry : executor_.batches[0].entries) {
    EXPECT_EQ(entry.edits.mask.empty(), entry.request == RequestId(2));
  }
}

TEST_F(CoreMasks, ThoseThatComeLaterJoinTheSameSteps) {
  submit(1, true);
  core_.start_step(now_);
  submit(2, true);
  core_.start_step(now_);
  EXPECT_EQ(executor_.batches.size(), 1u) << "a second batch would take turns with the first";
  end_step();
  ASSERT_EQ(executor_.batches.size(), 1u);
  EXPECT_EQ(executor_.batches[0].entries.size(), 2u);
}

TEST_F(CoreMasks, WhoIsLateIsPassedOverAndComesBack) {
  submit(1, true);
  submit(2, false);
  core_.start_step(now_);
  told_.state = MaskState::kComputing;
  for (int i = 0; i < 6; ++i) end_step();
  EXPECT_TRUE(executor_.steps_of(1).empty());
  EXPECT_EQ(executor_.steps_of(2).size(), 2u);
  EXPECT_EQ(core_.next_wakeup(), now_ + millis(1));
  told_.state = MaskState::kReady;
  end_step();
  EXPECT_EQ(executor_.steps_of(1).size(), 1u);
}

TEST_F(CoreMasks, WhoIsTooLateEnds) {
  submit(1, true);
  core_.start_step(now_);
  told_.state = MaskState::kComputing;
  end_step();
  EXPECT_FALSE(core_.step_in_flight());
  EXPECT_FALSE(core_.idle());
  (void)core_.take_outputs();
  now_ = now_ + seconds(2);
  core_.start_step(now_);
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, request::FinishReason::kError);
  EXPECT_EQ(outputs[0].code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(outputs[0].error, HasSubstr("longer than 1000 ms"));
  EXPECT_TRUE(core_.idle());
}

TEST_F(CoreMasks, WhereNothingFollowsItEnds) {
  submit(1, true);
  submit(2, false);
  core_.start_step(now_);
  told_.state = MaskState::kImpossible;
  end_step();
  bool ended = false;
  for (const request::Output& output : core_.take_outputs()) {
    if (!output.finished) continue;
    ended = true;
    EXPECT_EQ(output.request, RequestId(1));
    EXPECT_THAT(output.error, HasSubstr("no token"));
  }
  EXPECT_TRUE(ended);
  for (int i = 0; i < 4; ++i) end_step();
}

TEST_F(CoreMasks, OneThatGoesOnWaitsForItsFirstMask) {
  told_.state = MaskState::kComputing;
  submit(1, true, {7, 8});
  EXPECT_EQ(told_.begun, (std::vector<TokenId>{7, 8}));
  EXPECT_FALSE(core_.start_step(now_));
  told_.state = MaskState::kReady;
  EXPECT_TRUE(core_.start_step(now_));
}

TEST_F(CoreMasks, MayEndWhileItsMaskIsComputed) {
  submit(1, true);
  core_.start_step(now_);
  told_.state = MaskState::kComputing;
  end_step();
  core_.cancel(RequestId(1), now_);
  core_.start_step(now_);
  EXPECT_TRUE(core_.idle());
  EXPECT_TRUE(core_.check_integrity().ok());
}

TEST_F(CoreMasks, MinTokensDoNotGoWithAForm) {
  request::Request request = make_request(1, 3, 8);
  request.min_tokens = Tokens(2);
  request.constraint = std::make_shared<ToldConstraint>(told_);
  EXPECT_EQ(core_.submit(std::move(request), now_).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::engine::core_masks_test
