// EngineCore with a second step in flight: what is known when, and what happens to requests that
// end while a step computes tokens for them that are not wanted.
#include <gtest/gtest.h>

#include "engine/engine_core.h"
#include "engine/testing/core_requests.h"
#include "engine/testing/fake_executor.h"

namespace causeway::engine::engine_core_ahead_test {
namespace {

using request::FinishReason;

class Ahead : public ::testing::Test {
 protected:
  Ahead() : core_({.frames = 16, .schedule = {}, .step_timeout = seconds(2)}, executor_) {
    EXPECT_TRUE(core_.add_model(kModel, kFacts).ok());
  }
  void submit(request::Request request) {
    const Status taken = core_.submit(std::move(request), now_);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
  }
  // The oldest step ends.
  std::vector<request::Output> finish() {
    now_ += millis(1);
    core_.finish_step(*executor_.wait(Nanos(0)), now_);
    return take();
  }
  std::vector<request::Output> take() {
    const Status intact = core_.check_integrity();
    EXPECT_TRUE(intact.ok()) << intact.error().message;
    return core_.take_outputs();
  }
  std::vector<request::Output> run() {
    std::vector<request::Output> all;
    while (core_.start_step(now_)) {
      for (request::Output& output : finish()) all.push_back(std::move(output));
    }
    for (request::Output& output : take()) all.push_back(std::move(output));
    return all;
  }

  FakeExecutor executor_{2};
  EngineCore core_;
  Nanos now_{1};
};

TEST_F(Ahead, TheSecondStepComputesATokenThatNobodyKnows) {
  submit(make_request(1, 5, 4));
  submit(make_request(2, 3, 4));
  ASSERT_TRUE(core_.start_step(now_));
  EXPECT_EQ(executor_.steps(), 2);
  const request::Batch batch = executor_.last_batch();
  EXPECT_EQ(batch.tokens,
            (std::vector<TokenId>{request::pending_token(0), request::pending_token(1)}));
  EXPECT_EQ(batch.entries[0].context, 5);
  EXPECT_EQ(batch.entries[1].context, 3);
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 8u);
  EXPECT_EQ(outputs[6].tokens[0].token, FakeExecutor::kTokenBase + 8);
  EXPECT_EQ(outputs[6].reason, FinishReason::kLength);
}

TEST_F(Ahead, WhatEndsByLengthIsNotComputedAgain) {
  submit(make_request(1, 5, 3));
  EXPECT_EQ(run().size(), 3u);
  EXPECT_EQ(executor_.steps(), 3);
}

TEST_F(Ahead, PenaltiesCountTheTokenThatIsPending) {
  request::Request request = make_request(1, 3, 4);
  request.sampling.presence_penalty = 1;
  submit(std::move(request));
  ASSERT_TRUE(core_.start_step(now_));
  EXPECT_EQ(executor_.last_batch().entries[0].history,
            (std::vector<TokenId>{0, 1, 2, request::pending_token(0)}));
}

TEST_F(Ahead, StopTokensAreBannedFromTheFirstMinTokens) {
  request::Request request = make_request(1, 5, 6);
  request.stop_tokens = {7, 8};
  request.min_tokens = Tokens(3);
  request.logit_bias = {{9, 1.5f}};
  request.allowed_tokens = {1, 2};
  submit(std::move(request));
  // The tokens' places are known while the tokens before them are not.
  for (std::int64_t step = 2; core_.start_step(now_); ++step) {
    if (executor_.steps() == step) {
      const request::LogitEdits edits = executor_.last_batch().entries[0].edits;
      EXPECT_EQ(edits.banned.size(), step <= 3 ? 2u : 0u) << "step " << step;
      EXPECT_EQ(edits.allowed, (std::vector<TokenId>{1, 2}));
      ASSERT_EQ(edits.bias.size(), 1u);
      EXPECT_EQ(edits.bias[0].token, 9);
    }
    finish();
  }
  EXPECT_EQ(executor_.steps(), 6);
}

TEST_F(Ahead, AStopTokenEndsARequestThatTheNextStepComputes) {
  request::Request request = make_request(1, 5, 20);
  request.stop_tokens = {FakeExecutor::kTokenBase + 7};  // the third
  submit(std::move(request));
  std::vector<request::Output> outputs;
  while (core_.start_step(now_) && core_.requests() > 0) outputs = finish();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kStop);
  // The step in flight still uses frames that no other sequence may have yet.
  EXPECT_TRUE(core_.step_in_flight());
  EXPECT_EQ(core_.kv().counts().quarantined, 2);
  EXPECT_FALSE(core_.idle());
  EXPECT_TRUE(finish().empty());
  EXPECT_TRUE(core_.idle());
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
  // Its second block was filled with tokens after the end, so it must not be found.
  EXPECT_EQ(core_.kv().counts().cached, 1);
}

TEST_F(Ahead, WhatWasComputedOfPendingTokensIsFoundByTheirTokens) {
  submit(make_request(1, 6, 8));  // tokens 0 … 5, then 1006 … 1013
  run();
  request::Request next = make_request(2, 6, 1);
  for (TokenId token = 1006; token < 1013; ++token) next.prompt.push_back(token);
  submit(std::move(next));
  EXPECT_EQ(run().back().cached_prompt, Tokens(12));
  request::Request other = make_request(3, 6, 1);
  for (TokenId token = 1006; token < 1013; ++token) other.prompt.push_back(token + (token > 1009));
  submit(std::move(other));
  EXPECT_EQ(run().back().cached_prompt, Tokens(8));
}

TEST_F(Ahead, AFailedStepEndsWhatTheNextOneBuildsOnIt) {
  submit(make_request(1, 5, 9));
  executor_.fail_next("out of luck");
  ASSERT_TRUE(core_.start_step(now_));
  ASSERT_EQ(executor_.steps(), 2);
  const auto outputs = finish();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error, "out of luck");
  submit(make_request(2, 5, 2));
  const auto after = run();
  EXPECT_EQ(after.back().reason, FinishReason::kLength);
  EXPECT_EQ(after.back().cached_prompt, Tokens(0));
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
}

TEST_F(Ahead, AFailedStepLeavesOthersOfTheNextOneAlone) {
  submit(make_request(1, 5, 1));
  executor_.fail_next("out of luck");
  ASSERT_TRUE(core_.start_step(now_));  // nothing more to compute of it
  EXPECT_EQ(executor_.steps(), 1);
  submit(make_request(2, 5, 2));
  ASSERT_TRUE(core_.start_step(now_));
  EXPECT_EQ(executor_.steps(), 2);
  EXPECT_EQ(finish().back().error, "out of luck");
  EXPECT_EQ(run().back().reason, FinishReason::kLength);
}

TEST_F(Ahead, ARefusedStepEndsItsRequestsWhenItsTurnHasCome) {
  submit(make_request(1, 5, 1));
  ASSERT_TRUE(core_.start_step(now_));
  submit(make_request(2, 5, 9));
  executor_.refuse_next();
  ASSERT_TRUE(core_.start_step(now_));
  EXPECT_TRUE(take().empty());  // the first step still runs
  EXPECT_EQ(core_.requests(), 2);
  submit(make_request(3, 5, 2));
  ASSERT_TRUE(core_.start_step(now_));
  EXPECT_EQ(executor_.steps(), 1);  // nothing is enqueued after a refused one
  const auto outputs = finish();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kLength);
  EXPECT_NE(outputs[1].error.find("refused"), std::string::npos);
  EXPECT_EQ(run().back().reason, FinishReason::kLength);
}

TEST_F(Ahead, CancellingKeepsFramesUntilTheLastStepThatUsesThem) {
  submit(make_request(1, 5, 9));
  ASSERT_TRUE(core_.start_step(now_));
  core_.cancel(RequestId(1), now_);
  EXPECT_EQ(core_.kv().counts().quarantined, 2);
  EXPECT_EQ(finish().size(), 1u);
  EXPECT_EQ(core_.kv().counts().quarantined, 2);
  EXPECT_EQ(core_.remove_model(kModel).error().code, ErrorCode::kUnavailable);
  finish();
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
  EXPECT_TRUE(core_.remove_model(kModel).ok());
}

TEST_F(Ahead, AnIdMayBeUsedAgainWhileStepsComputeItsFormerRequest) {
  submit(make_request(1, 5, 9));
  ASSERT_TRUE(core_.start_step(now_));
  core_.cancel(RequestId(1), now_);
  submit(make_request(1, 3, 2));
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(outputs[1].tokens[0].token, FakeExecutor::kTokenBase + 3);
  EXPECT_EQ(outputs[2].reason, FinishReason::kLength);
}

TEST_F(Ahead, TheTimeOfAStepBeginsWhenTheOneBeforeEnds) {
  submit(make_request(1, 5, 9));
  ASSERT_TRUE(core_.start_step(now_));
  const Nanos begun = now_;
  EXPECT_EQ(core_.next_wakeup(), begun + seconds(2));
  now_ += millis(1500);
  finish();
  EXPECT_EQ(core_.next_wakeup(), now_ + seconds(2));
  core_.check_timeout(now_ + seconds(2));
  EXPECT_TRUE(core_.hung());
  EXPECT_EQ(take().size(), 1u);
  finish();
  EXPECT_FALSE(core_.hung());
  EXPECT_TRUE(core_.idle());
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
}

TEST_F(Ahead, PreemptsOnlyWhenNothingIsInFlight) {
  for (int id = 1; id <= 3; ++id) submit(make_request(id, 12, 20));  // 93 tokens in room for 64
  std::int64_t preemptions = 0;
  while (core_.start_step(now_)) {
    const std::int64_t before = core_.observe().preemptions;
    finish();
    EXPECT_EQ(core_.observe().preemptions, before);
    preemptions = core_.observe().preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(core_.observe().generated_tokens, 60);
}

}  // namespace
}  // namespace causeway::engine::engine_core_ahead_test
