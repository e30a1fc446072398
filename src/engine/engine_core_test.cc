#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <utility>

#include "engine/nan_logits.h"
#include "engine/testing/core_requests.h"
#include "engine/testing/fake_executor.h"

namespace causeway::engine::engine_core_test {
namespace {

using request::FinishReason;

class Core : public ::testing::Test {
 protected:
  explicit Core(std::int64_t frames = 16)
      : core_({.frames = frames, .schedule = {}, .step_timeout = seconds(2)}, executor_) {
    EXPECT_TRUE(core_.add_model(kModel, kFacts).ok());
  }
  // Runs steps until nothing is left or `steps` were run.
  std::vector<request::Output> run(int steps = 1000) {
    std::vector<request::Output> all;
    while (steps-- > 0 && core_.start_step(now_)) {
      now_ += millis(1);
      core_.finish_step(*executor_.wait(Nanos(0)), now_);
      collect(all);
    }
    collect(all);
    return all;
  }
  void collect(std::vector<request::Output>& all) {
    for (request::Output& output : core_.take_outputs()) all.push_back(std::move(output));
    const Status intact = core_.check_integrity();
    EXPECT_TRUE(intact.ok()) << intact.error().message;
  }
  ErrorCode refusal(request::Request request) {
    const Status taken = core_.submit(std::move(request), now_);
    return taken.ok() ? ErrorCode::kIo : taken.error().code;
  }

  FakeExecutor executor_;
  EngineCore core_;
  Nanos now_{1};
};

TEST_F(Core, GivesEveryTokenAsItComesAndTheLastWithTheEnd) {
  ASSERT_TRUE(core_.submit(make_request(7, 5, 3), now_).ok());
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(outputs[i].tokens.size(), 1u);
    EXPECT_EQ(outputs[i].tokens[0].token, FakeExecutor::kTokenBase + 5 + static_cast<int>(i));
    EXPECT_EQ(outputs[i].finished, i == 2);
  }
  EXPECT_EQ(outputs[2].reason, FinishReason::kLength);
  EXPECT_TRUE(core_.idle());
}

TEST_F(Core, KeepsTheStopTokenBack) {
  request::Request request = make_request(7, 5, 10);
  request.stop_tokens = {9, FakeExecutor::kTokenBase + 7};
  ASSERT_TRUE(core_.submit(std::move(request), now_).ok());
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_TRUE(outputs[2].finished);
  EXPECT_TRUE(outputs[2].tokens.empty());
  EXPECT_EQ(outputs[2].reason, FinishReason::kStop);
}

TEST_F(Core, RefusesWhatCanNeverRunAndSaysWhy) {
  EXPECT_EQ(refusal(make_request(1, 0, 3)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(make_request(1, 3, 0)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(make_request(1, 60, 5)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(make_request(1, 3, std::numeric_limits<std::int64_t>::max())),
            ErrorCode::kInvalidArgument);
  request::Request stranger = make_request(1, 3, 3);
  stranger.model = ModelId(9);
  EXPECT_EQ(refusal(std::move(stranger)), ErrorCode::kInvalidArgument);
  request::Request beyond = make_request(1, 3, 3);
  beyond.prompt[1] = 2000;
  EXPECT_EQ(refusal(std::move(beyond)), ErrorCode::kInvalidArgument);
  request::Request nan = make_request(1, 3, 3);
  nan.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(std::move(nan)), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(core_.submit(make_request(1, 3, 3), now_).ok());
  EXPECT_EQ(refusal(make_request(1, 3, 3)), ErrorCode::kInvalidArgument);  // the id is in use
}

TEST_F(Core, RefusesEditsThatMakeNoSense) {
  const auto refused = [&](auto change) {
    request::Request request = make_request(1, 3, 3);
    change(request);
    return refusal(std::move(request)) == ErrorCode::kInvalidArgument;
  };
  using R = request::Request;
  EXPECT_TRUE(refused([](R& r) { r.min_tokens = Tokens(4); }));
  EXPECT_TRUE(refused([](R& r) { r.min_tokens = Tokens(-1); }));
  EXPECT_TRUE(refused([](R& r) { r.logit_bias = {{2000, 1}}; }));
  EXPECT_TRUE(refused([](R& r) { r.logit_bias = {{-1, 1}}; }));
  EXPECT_TRUE(refused([](R& r) { r.logit_bias = {{5, 1}, {6, 1}, {5, 2}}; }));
  EXPECT_TRUE(refused([](R& r) { r.logit_bias = {{5, std::numeric_limits<float>::infinity()}}; }));
  EXPECT_TRUE(refused([](R& r) { r.allowed_tokens = {1, 2000}; }));
  EXPECT_TRUE(refused([](R& r) { r.allowed_tokens.assign(request::kEditedTokensMax + 1, 5); }));
  EXPECT_FALSE(refused([](R& r) {
    r.min_tokens = Tokens(3);
    r.logit_bias = {{5, -100}, {6, 100}};
    r.allowed_tokens.assign(request::kEditedTokensMax, 5);
  }));
}

class SmallCore : public Core {
 protected:
  SmallCore() : Core(4) {}
};

TEST_F(SmallCore, RefusesWhatIsLongerThanAllFrames) {
  const Status taken = core_.submit(make_request(1, 10, 8), now_);  // 17 tokens have KV
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(taken.error().message.find("need 5 KV frames"), std::string::npos)
      << taken.error().message;
  EXPECT_TRUE(core_.submit(make_request(1, 10, 7), now_).ok());
  EXPECT_EQ(run().back().reason, FinishReason::kLength);
}

TEST_F(Core, AFailedStepEndsItsRequestsAndTheEngineLivesOn) {
  ASSERT_TRUE(core_.submit(make_request(1, 5, 4), now_).ok());
  ASSERT_TRUE(core_.submit(make_request(2, 5, 4), now_).ok());
  executor_.fail_next("out of luck");
  auto outputs = run(1);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kError);
  EXPECT_EQ(outputs[0].error, "out of luck");
  ASSERT_TRUE(core_.submit(make_request(3, 5, 4), now_).ok());
  outputs = run();
  EXPECT_EQ(outputs.back().reason, FinishReason::kLength);
  EXPECT_EQ(outputs.back().cached_prompt, Tokens(0));  // nothing of the failed step was kept
}

TEST_F(Core, ARefusedStepEndsItsRequestsAndTheNextStarts) {
  ASSERT_TRUE(core_.submit(make_request(1, 5, 4), now_).ok());
  ASSERT_TRUE(core_.add_model(ModelId(2), kFacts).ok());
  request::Request other = make_request(2, 5, 1);
  other.model = ModelId(2);
  ASSERT_TRUE(core_.submit(std::move(other), now_).ok());
  executor_.refuse_next();
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kError);
  EXPECT_EQ(outputs[1].reason, FinishReason::kLength);
}

TEST_F(Core, TheSecondAskerFindsTheFirstOnesPrompt) {
  ASSERT_TRUE(core_.submit(make_request(1, 9, 4), now_).ok());
  run();
  ASSERT_TRUE(core_.submit(make_request(2, 9, 4), now_).ok());
  const auto outputs = run();
  EXPECT_EQ(outputs.front().cached_prompt, Tokens(8));  // told from the first token on
  EXPECT_EQ(outputs.back().cached_prompt, Tokens(8));
  EXPECT_EQ(core_.observe().prefix_hit_tokens, 8);
  EXPECT_EQ(core_.observe().prompt_tokens, 9 + 1);
  const auto models = core_.observe_models();
  ASSERT_EQ(models.size(), 1u);
  EXPECT_EQ(models[0].second.prefix_queried_tokens, core_.observe().prefix_queried_tokens);
  EXPECT_EQ(models[0].second.prefix_hit_tokens, 8);
  EXPECT_EQ(models[0].second.frames_total, 16);
}

TEST_F(Core, TellsHowLongARequestQueued) {
  request::Request late = make_request(1, 5, 2);
  late.arrival = now_;
  ASSERT_TRUE(core_.submit(std::move(late), now_).ok());
  ASSERT_TRUE(core_.submit(make_request(2, 5, 2), now_).ok());
  core_.cancel(RequestId(2), now_);
  ASSERT_TRUE(core_.start_step(now_ + millis(30)));
  core_.finish_step(*executor_.wait(Nanos(0)), now_ + millis(40));
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_LT(outputs[0].queued.count, 0);  // cancelled while it waited
  EXPECT_EQ(outputs[1].queued, millis(30));
}

TEST_F(Core, CancelsInEveryState) {
  core_.cancel(RequestId(5), now_);  // unknown
  ASSERT_TRUE(core_.submit(make_request(1, 5, 9), now_).ok());
  core_.cancel(RequestId(1), now_);  // waiting
  auto outputs = run();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kCancelled);

  ASSERT_TRUE(core_.submit(make_request(2, 5, 9), now_).ok());
  run(2);
  ASSERT_TRUE(core_.start_step(now_));
  core_.cancel(RequestId(2), now_);  // computed by the step in flight
  EXPECT_GT(core_.kv().counts().quarantined, 0);
  EXPECT_EQ(core_.requests(), 0);
  EXPECT_FALSE(core_.idle());
  // The id may be used again at once.
  ASSERT_TRUE(core_.submit(make_request(2, 3, 1), now_).ok());
  core_.finish_step(*executor_.wait(Nanos(0)), now_);
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
  outputs = run();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(outputs[1].tokens[0].token, FakeExecutor::kTokenBase + 3);
}

TEST_F(Core, AStepThatHangsIsReportedAndMayStillReturn) {
  ASSERT_TRUE(core_.submit(make_request(1, 5, 9), now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  ASSERT_TRUE(core_.submit(make_request(2, 5, 9), now_).ok());
  EXPECT_EQ(core_.next_wakeup(), now_ + seconds(2));
  core_.check_timeout(now_ + millis(1999));
  EXPECT_FALSE(core_.hung());
  core_.check_timeout(now_ + seconds(2));
  EXPECT_TRUE(core_.hung());
  EXPECT_TRUE(core_.observe().hung);
  auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_NE(outputs[1].error.find("hangs"), std::string::npos);
  EXPECT_EQ(refusal(make_request(3, 5, 9)), ErrorCode::kUnavailable);
  EXPECT_GT(core_.kv().counts().quarantined, 0);

  core_.finish_step(*executor_.wait(Nanos(0)), now_ + seconds(9));
  EXPECT_FALSE(core_.hung());
  EXPECT_TRUE(core_.submit(make_request(3, 5, 2), now_).ok());
  outputs = run();
  EXPECT_EQ(outputs.back().reason, FinishReason::kLength);
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
}

TEST(CorePatience, IsTheExecutorsWhereTheOptionsNameNone) {
  const Nanos usual = StepExecutor::Capabilities{}.step_timeout;
  FakeExecutor slow(1, usual * 10);
  EngineCore core({.frames = 16, .schedule = {}}, slow);
  ASSERT_TRUE(core.add_model(kModel, kFacts).ok());
  ASSERT_TRUE(core.submit(make_request(1, 5, 1), Nanos(1)).ok());
  ASSERT_TRUE(core.start_step(Nanos(1)));
  core.check_timeout(Nanos(1) + usual * 2);
  EXPECT_FALSE(core.observe().hung);
  core.finish_step(*slow.wait(Nanos(0)), Nanos(1) + usual * 2);
  const auto outputs = core.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kLength);

  const EngineCore stricter({.frames = 16, .schedule = {}, .step_timeout = seconds(2)}, slow);
  EXPECT_EQ(stricter.step_timeout(), seconds(2));
}

TEST_F(Core, ALostDeviceEndsWhatRunsWaitsAndComes) {
  ASSERT_TRUE(core_.submit(make_request(1, 5, 9), now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  ASSERT_TRUE(core_.submit(make_request(2, 5, 9), now_).ok());
  core_.lose("the GPU is lost: planted");
  core_.lose("the second reason is not the one");
  EXPECT_EQ(core_.suspects(), std::vector{RequestId(1)});
  EXPECT_EQ(core_.requests(), 0);
  EXPECT_EQ(core_.observe().lost, "the GPU is lost: planted");
  EXPECT_EQ(refusal(make_request(3, 5, 9)), ErrorCode::kUnavailable);
  core_.finish_step(*executor_.wait(Nanos(0)), now_);
  EXPECT_FALSE(core_.start_step(now_));
  EXPECT_EQ(core_.kv().counts().quarantined, 0);
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 2u);
  for (const auto& output : outputs) {
    EXPECT_EQ(output.reason, FinishReason::kError);
    EXPECT_EQ(output.error, "the GPU is lost: planted");
    EXPECT_TRUE(output.lost);
  }
}

// Which requests the watch is told of before steps.
class Watch final : public StepWatch {
 public:
  void queued(RequestId request) override { told += "queued " + text(request) + "; "; }
  void steps(std::span<const RequestId> requests) override {
    told += "steps";
    for (const RequestId request : requests) told += " " + text(request);
    told += "; ";
  }
  std::string take() { return std::exchange(told, {}); }

 private:
  static std::string text(RequestId request) { return std::to_string(request.value); }
  std::string told;
};

TEST_F(Core, WhoIsInAStepIsToldBeforeItIsSubmitted) {
  Watch watch;
  EngineCore core(
      {.frames = 16, .schedule = {.running_max = 1}, .step_timeout = seconds(2), .watch = &watch},
      executor_);
  ASSERT_TRUE(core.add_model(kModel, kFacts).ok());
  ASSERT_TRUE(core.submit(make_request(2, 5, 1), now_).ok());
  ASSERT_TRUE(core.submit(make_request(1, 5, 1), now_).ok());
  EXPECT_EQ(watch.take(), "queued 2; queued 1; ");
  executor_.refuse_next();
  ASSERT_TRUE(core.start_step(now_));
  EXPECT_EQ(watch.take(), "steps 1; steps 2; steps 2; ") << "of 1 the step was refused";
  core.check_timeout(now_ + seconds(9));
  EXPECT_TRUE(core.hung());
  EXPECT_TRUE(core.start_step(now_));
  EXPECT_EQ(watch.take(), "") << "it stays as it was when the device began to hang";
  core.finish_step(*executor_.wait(Nanos(0)), now_);
  EXPECT_FALSE(core.start_step(now_));
  EXPECT_EQ(watch.take(), "steps; ");
}

TEST_F(Core, AStepThatFailsByALossIsLost) {
  request::Request request = make_request(1, 5, 9);
  request.output = {7, 8};
  request.attempt = 3;
  ASSERT_TRUE(core_.submit(request, now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  request::StepResult failed = *executor_.wait(Nanos(0));
  failed.error = "an illegal memory access";
  core_.finish_step(failed, now_);
  core_.lose("the GPU is lost: planted");
  EXPECT_EQ(core_.suspects(), std::vector{RequestId(1)});
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error, "an illegal memory access");
  EXPECT_TRUE(outputs[0].lost);
  EXPECT_EQ(outputs[0].attempt, 3);
}

TEST_F(Core, ARowWithoutANumberEndsItsRequestAlone) {
  ASSERT_TRUE(core_.submit(make_request(1, 5, 9), now_).ok());
  ASSERT_TRUE(core_.submit(make_request(2, 5, 9), now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  request::StepResult result = *executor_.wait(Nanos(0));
  ASSERT_EQ(result.sampled.size(), 2u);
  result.sampled[0].token.token = kNoToken;
  core_.finish_step(result, now_);
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kError);
  EXPECT_EQ(outputs[0].error, kNanLogits);
  EXPECT_TRUE(outputs[0].finished && outputs[0].tokens.empty() && !outputs[0].lost);
  EXPECT_FALSE(outputs[1].finished);
  EXPECT_EQ(outputs[1].tokens.size(), 1u);
}

TEST_F(Core, AScoredRowWithoutANumberEndsItsRequestToo) {
  request::Request scored = make_request(1, 5, 9);
  scored.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(core_.submit(std::move(scored), now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  request::StepResult result = *executor_.wait(Nanos(0));
  ASSERT_EQ(result.sampled.size(), 5u);
  result.sampled[1].token.token = kNoToken;
  core_.finish_step(result, now_);
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error, kNanLogits);
  EXPECT_TRUE(outputs[0].finished && outputs[0].tokens.empty());
}

TEST_F(Core, WhatIsPutOutAlreadyCountsAsOutput) {
  request::Request request = make_request(1, 5, 4);
  request.output = {7, 8, 9, 10};
  EXPECT_EQ(refusal(request), ErrorCode::kInvalidArgument) << "nothing is left to do";
  request.output = {7, 8, 1'000'000};
  EXPECT_EQ(refusal(request), ErrorCode::kInvalidArgument) << "no token of the model";
  request.output = {7, 8, 9};
  ASSERT_TRUE(core_.submit(request, now_).ok());
  ASSERT_TRUE(core_.start_step(now_));
  core_.finish_step(*executor_.wait(Nanos(0)), now_);
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].tokens.size(), 1u);
  EXPECT_EQ(outputs[0].reason, FinishReason::kLength);
}

TEST_F(Core, ModelsLeaveWhenNothingIsLeftOfThem) {
  EXPECT_EQ(core_.add_model(kModel, kFacts).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(core_.add_model(ModelId(2), {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(core_.remove_model(ModelId(3)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(core_.submit(make_request(1, 5, 9), now_).ok());
  EXPECT_EQ(core_.remove_model(kModel).error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(core_.start_step(now_));
  core_.cancel_all(now_);
  EXPECT_EQ(core_.remove_model(kModel).error().code, ErrorCode::kUnavailable);  // a step is left
  core_.finish_step(*executor_.wait(Nanos(0)), now_);
  EXPECT_TRUE(core_.remove_model(kModel).ok());
  EXPECT_EQ(core_.kv().counts().free, 16);
  EXPECT_TRUE(core_.add_model(kModel, kFacts).ok());
}

}  // namespace
}  // namespace causeway::engine::engine_core_test
