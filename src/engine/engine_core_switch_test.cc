// The core's reports about models whose weights come and go.
#include <gtest/gtest.h>

#include <deque>

#include "engine/testing/core_requests.h"
#include "engine/testing/fake_executor.h"

namespace causeway::engine::engine_core_switch_test {
namespace {

constexpr Bytes kExtent = mib(32);

// Copies end when the test calls for it.
class HandMover final : public weights::WeightMover {
 public:
  void submit(std::span<const weights::WeightCommand> commands) override {
    for (const weights::WeightCommand& command : commands) {
      const bool of_frames = !command.model.valid();
      const bool commits = command.kind == weights::WeightCommand::Kind::kCommit;
      if (command.kind == weights::WeightCommand::Kind::kBring) brought_.push_back(command);
      if (of_frames && commits) frames_coming_.push_back(command.first_extent);
    }
  }
  std::vector<weights::WeightEvent> poll() override { return std::exchange(events_, {}); }
  bool issued(ModelId) const override { return true; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }
  double granted_rate() const override { return 48 << 20; }

  void arrive(const Status& outcome = {}) {
    for (const weights::WeightCommand& bring : std::exchange(brought_, {})) {
      events_.push_back({bring.model, bring.group, bring.arrival, outcome});
    }
    for (const std::int64_t extent : std::exchange(frames_coming_, {})) {
      weights::WeightEvent& event = events_.emplace_back();
      event.extent = extent;
      event.outcome = frames;
    }
  }

  Status frames;  // how commits of their extents end

 private:
  std::vector<weights::WeightCommand> brought_;
  std::vector<std::int64_t> frames_coming_;
  std::vector<weights::WeightEvent> events_;
};

// Two models of two extents each, and room for one.
class SwitchTest : public ::testing::Test {
 protected:
  SwitchTest() {
    for (const ModelId model : {ModelId(1), ModelId(2)}) EXPECT_TRUE(add(model).ok());
  }

  Status add(ModelId model, bool pinned = false) {
    ModelFacts facts = kFacts;
    facts.pinned = pinned;
    facts.weights.groups = {
        {.offset = Bytes(0), .bytes = kExtent},
        {.offset = kExtent, .bytes = kExtent / 2},
        {.offset = kExtent + kExtent / 2, .bytes = kExtent / 4, .readable_at_home = true}};
    facts.weights.layout_groups = {0, 1, 2};
    return core_.add_model(model, facts);
  }

  void ask(std::int64_t id, ModelId model, Nanos now) {
    request::Request request = make_request(id, 3, 2);
    request.model = model;
    request.arrival = now;
    ASSERT_TRUE(core_.submit(std::move(request), now).ok());
  }

  // Runs what can be run at `now`.
  std::vector<request::Output> run(Nanos now) {
    while (core_.start_step(now)) core_.finish_step(*executor_.wait(Nanos(0)), now);
    return core_.take_outputs();
  }

  Bytes cached(ModelId model) {
    for (const auto& [id, seen] : core_.observe_models()) {
      if (id == model) return seen.weights_cached;
    }
    return {};
  }

  HandMover mover_;
  weights::WeightCache cache_{{.extent = kExtent, .extents = 2, .optional_after = {}}, mover_};
  FakeExecutor executor_;
  EngineCore core_{
      {.frames = 64, .schedule = {}, .step_start = StepStart::kAllCached}, executor_, &cache_};
};

TEST_F(SwitchTest, TheFirstTokenTellsHowLongItTook) {
  ask(1, ModelId(1), millis(10));
  EXPECT_TRUE(run(millis(10)).empty());
  ask(2, ModelId(1), millis(200));  // comes along
  EXPECT_EQ(cached(ModelId(1)), Bytes(0));
  mover_.arrive();
  const auto outputs = run(millis(510));
  ASSERT_EQ(outputs.size(), 4u);
  ASSERT_TRUE(outputs[0].switched.has_value());
  EXPECT_EQ(outputs[0].switched->missing, kExtent + kExtent / 2);
  EXPECT_EQ(outputs[0].switched->predicted, seconds(1));
  EXPECT_EQ(outputs[0].switched->took, millis(500));
  for (std::size_t i = 1; i < outputs.size(); ++i) EXPECT_FALSE(outputs[i].switched) << i;
  EXPECT_EQ(cached(ModelId(1)), kExtent + kExtent / 2);
  EXPECT_EQ(core_.observe().weights_cached, cached(ModelId(1)));

  ask(3, ModelId(1), seconds(1));
  for (const auto& output : run(seconds(1))) EXPECT_FALSE(output.switched) << "nothing was missing";
}

TEST_F(SwitchTest, OutputsTellForHowLongWeightsWereMissing) {
  ask(1, ModelId(1), millis(10));
  EXPECT_TRUE(run(millis(10)).empty());
  ask(2, ModelId(1), millis(200));
  mover_.arrive();
  const auto outputs = run(millis(510));
  ASSERT_EQ(outputs.size(), 4u);
  for (const auto& output : outputs) {
    const bool first = output.request == RequestId(1);
    EXPECT_EQ(output.weights, first ? millis(500) : millis(310));
    EXPECT_EQ(output.queued, output.weights) << "it waited for nothing else";
  }
  ask(3, ModelId(1), seconds(1));
  for (const auto& output : run(seconds(2))) {
    EXPECT_EQ(output.weights, Nanos(0)) << "they were there: it waited for something else";
    EXPECT_EQ(output.queued, seconds(1));
  }
}

TEST_F(SwitchTest, EveryModelHasItsOwn) {
  ask(1, ModelId(1), millis(10));
  run(millis(10));
  mover_.arrive();
  run(millis(20));
  ask(2, ModelId(2), seconds(1));
  run(seconds(1));
  EXPECT_GT(cached(ModelId(1)), Bytes(0)) << "what can be read at home is on its way";
  mover_.arrive();
  run(seconds(1));
  EXPECT_EQ(cached(ModelId(1)), Bytes(0)) << "it gave way";
  mover_.arrive();
  const auto outputs = run(seconds(3));
  ASSERT_FALSE(outputs.empty());
  ASSERT_TRUE(outputs[0].switched.has_value());
  EXPECT_EQ(outputs[0].switched->took, seconds(2));
}

TEST_F(SwitchTest, NobodyWaitsForASwitchWhoseRequestsWereCancelled) {
  ask(1, ModelId(1), millis(10));
  run(millis(10));
  core_.cancel(RequestId(1), millis(20));
  mover_.arrive();
  run(millis(30));
  ask(2, ModelId(1), seconds(9));
  for (const auto& output : run(seconds(9))) EXPECT_FALSE(output.switched);
}

TEST_F(SwitchTest, PinnedModelsStay) {
  ASSERT_TRUE(core_.remove_model(ModelId(1)).ok());
  ASSERT_TRUE(add(ModelId(1), /*pinned=*/true).ok());
  ask(1, ModelId(1), millis(10));
  run(millis(10));
  mover_.arrive();
  run(millis(20));
  ask(2, ModelId(2), seconds(1));
  const auto outputs = run(seconds(1));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, request::FinishReason::kError) << "there is no room for both";
  EXPECT_GE(cached(ModelId(1)), kExtent + kExtent / 2);
}

// KV has one extent of two frames of four tokens each, weights have four, and the model takes two.
class BorderTest : public ::testing::Test {
 protected:
  explicit BorderTest(std::int64_t frames = 2, std::int64_t weights = 4)
      : cache_({.extent = kExtent, .extents = weights, .extents_max = 4}, mover_),
        core_({.frames = frames,
               .border =
                   schedule::BorderRules{
                       .frames_per_extent = 2, .kv_min = 1, .kv_max = 5, .hold = seconds(1)},
               .schedule = {}},
              executor_, &cache_) {
    EXPECT_TRUE(add(ModelId(1), 2).ok());
  }

  Status add(ModelId model, std::int64_t extents, bool pinned = false) {
    ModelFacts facts = kFacts;
    facts.pinned = pinned;
    facts.weights = {.groups = {{.offset = Bytes(0), .bytes = kExtent * extents}},
                     .layout_groups = {0}};
    return core_.add_model(model, facts);
  }
  std::vector<request::Output> run(Nanos now) {
    while (core_.start_step(now)) core_.finish_step(*executor_.wait(Nanos(0)), now);
    EXPECT_TRUE(core_.check_integrity().ok());
    return core_.take_outputs();
  }

  HandMover mover_;
  weights::WeightCache cache_;
  FakeExecutor executor_;
  EngineCore core_;
};

TEST_F(BorderTest, ARequestThatFitsAfterTheBorderHasMovedWaitsForThat) {
  ASSERT_TRUE(core_.submit(make_request(1, 20, 2), Nanos(0)).ok());
  EXPECT_TRUE(run(millis(1)).empty());
  EXPECT_EQ(cache_.residency().budget(), 2);
  mover_.arrive();  // the model, and two extents for KV
  const auto outputs = run(millis(2));
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[1].reason, request::FinishReason::kLength);
  EXPECT_EQ(core_.observe().frames_total, 6);
}

TEST_F(BorderTest, ARequestForMoreThanTheModelLeavesIsRefused) {
  EXPECT_TRUE(core_.submit(make_request(1, 24, 1), Nanos(0)).ok()) << "six frames";
  const Status refused = core_.submit(make_request(2, 24, 2), Nanos(0));
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  mover_.arrive();
}

TEST_F(BorderTest, ARequestThatANewModelLeavesNoRoomEnds) {
  ASSERT_TRUE(core_.submit(make_request(1, 24, 1), Nanos(0)).ok());
  ASSERT_TRUE(add(ModelId(2), 3).ok());
  const auto outputs = run(millis(1));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error,
            "the request needs 6 KV frames and can have 4: the weights of models leave it no more");
}

TEST_F(BorderTest, ARequestForWhichThereIsNoMemoryEnds) {
  ASSERT_TRUE(core_.submit(make_request(1, 20, 2), Nanos(0)).ok());
  ASSERT_TRUE(core_.submit(make_request(2, 4, 1), Nanos(0)).ok());
  run(millis(1));
  mover_.frames = exhausted("no memory");
  mover_.arrive();
  const auto outputs = run(millis(2));
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].error, "the request needs 5 KV frames and can have 2: no memory");
  EXPECT_EQ(outputs[1].reason, request::FinishReason::kLength) << "the other is served";
  EXPECT_EQ(cache_.residency().budget(), 4);
}

// Two extents for KV at the start, three for weights.
class EvenBorderTest : public BorderTest {
 protected:
  EvenBorderTest() : BorderTest(4, 3) {}
};

TEST_F(EvenBorderTest, WhatARequestLeavesThatEndsForItsSizeGoesToTheOthers) {
  ASSERT_TRUE(core_.submit(make_request(1, 24, 1), Nanos(0)).ok()) << "six frames";
  ASSERT_TRUE(add(ModelId(2), 4).ok());
  request::Request request = make_request(2, 1, 1);
  request.model = ModelId(2);
  ASSERT_TRUE(core_.submit(std::move(request), Nanos(0)).ok());
  const auto outputs = run(millis(1));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].reason, request::FinishReason::kError);
  EXPECT_EQ(core_.next_wakeup(), millis(1)) << "there is more to decide";
  run(millis(1));
  EXPECT_EQ(cache_.residency().budget(), 4) << "what the other's model takes";
  std::vector<request::Output> more;
  for (int i = 2; i < 10 && more.empty(); ++i) {
    mover_.arrive();
    more = run(millis(i));
  }
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].reason, request::FinishReason::kLength);
}

// Three extents for KV at the start, two for weights.
class NarrowBorderTest : public BorderTest {
 protected:
  NarrowBorderTest() : BorderTest(6, 2) {}
};

TEST_F(NarrowBorderTest, SequencesGiveWayToAModelWhereNothingElseCanRun) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(core_.submit(make_request(i, 5, 3), Nanos(0)).ok());
  }
  core_.start_step(millis(1));
  mover_.arrive();
  ASSERT_TRUE(core_.start_step(millis(2)));
  core_.finish_step(*executor_.wait(Nanos(0)), millis(3));
  EXPECT_EQ(core_.kv().counts().referenced, 4) << "two run, one waits";
  // A pinned model takes their weights' place; now these need what the sequences hold.
  ASSERT_TRUE(add(ModelId(2), 2, /*pinned=*/true).ok());
  request::Request request = make_request(3, 5, 1);
  request.model = ModelId(2);
  ASSERT_TRUE(core_.submit(std::move(request), seconds(1)).ok());
  std::size_t ended = 0;
  for (int i = 0; i < 20; ++i) {
    const Nanos now = seconds(2 + i);
    mover_.arrive();
    for (const request::Output& output : run(now)) {
      if (!output.finished) continue;
      EXPECT_EQ(output.error, "");
      ++ended;
    }
  }
  EXPECT_EQ(ended, 4u);
  EXPECT_GE(core_.observe().preemptions, 2);
  EXPECT_EQ(cache_.residency().budget(), 4);
  EXPECT_EQ(core_.observe().frames_total, 2);
}

// A model that came later is pinned. Beside both of them there is no room for the sequence, which
// holds all frames and would keep either from running.
TEST_F(NarrowBorderTest, ASequenceEndsBesideWhichModelsCannotCome) {
  ASSERT_TRUE(core_.submit(make_request(1, 22, 2), Nanos(0)).ok()) << "six frames";
  core_.start_step(millis(1));
  mover_.arrive();
  ASSERT_TRUE(core_.start_step(millis(2)));
  ASSERT_TRUE(add(ModelId(2), 2, /*pinned=*/true).ok());
  request::Request request = make_request(2, 1, 1);
  request.model = ModelId(2);
  ASSERT_TRUE(core_.submit(std::move(request), millis(3)).ok());
  std::vector<request::Output> ended;
  for (int i = 0; i < 20; ++i) {
    const Nanos now = seconds(2 + i);
    mover_.arrive();
    if (i == 0) core_.finish_step(*executor_.wait(Nanos(0)), now);
    for (request::Output& output : run(now)) {
      if (output.finished) ended.push_back(std::move(output));
    }
  }
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].request, RequestId(1));
  EXPECT_EQ(ended[0].error,
            "the request needs 6 KV frames and can have 2: the weights of models leave it no more");
  EXPECT_EQ(ended[1].error, "");
  EXPECT_TRUE(core_.idle());
}

// Two models of 48 MiB, for which the link takes a second, and room for both.
class StepStartTest : public ::testing::Test {
 protected:
  StepStartTest() {
    for (const ModelId model : {ModelId(1), ModelId(2)}) {
      ModelFacts facts = kFacts;
      facts.weights.groups = {{.offset = Bytes(0), .bytes = kExtent + kExtent / 2}};
      facts.weights.layout_groups = {0};
      EXPECT_TRUE(core_.add_model(model, facts).ok());
    }
  }

  // One token.
  void ask(ModelId model, Nanos now) {
    request::Request request = make_request(model.value, 3, 1);
    request.model = model;
    request.arrival = now;
    ASSERT_TRUE(core_.submit(std::move(request), now).ok());
    core_.start_step(now);
  }

  HandMover mover_;
  weights::WeightCache cache_{{.extent = kExtent, .extents = 4}, mover_};
  FakeExecutor executor_{/*steps_in_flight_max=*/2};
  EngineCore core_{{.frames = 64, .schedule = {}}, executor_, &cache_};
};

TEST_F(StepStartTest, AStepIsLaunchedWhileItsWeightsComeToADeviceThatIsIdle) {
  ask(ModelId(1), Nanos(0));
  const Nanos launched = seconds(1) - micros(1500);
  EXPECT_EQ(core_.next_wakeup(), launched);
  EXPECT_FALSE(core_.start_step(launched - micros(1)));
  EXPECT_TRUE(core_.start_step(launched));
}

TEST_F(StepStartTest, WhenIdleAStepIsLaunchedHoweverMuchIsOnItsWay) {
  EngineCore core{
      {.frames = 64, .schedule = {}, .step_start = StepStart::kWhenIdle}, executor_, &cache_};
  for (const ModelId model : {ModelId(3), ModelId(4)}) {
    ModelFacts facts = kFacts;
    facts.weights.groups = {{.offset = Bytes(0), .bytes = kExtent}};
    facts.weights.layout_groups = {0};
    ASSERT_TRUE(core.add_model(model, facts).ok());
    request::Request request = make_request(model.value, 3, 1);
    request.model = model;
    ASSERT_TRUE(core.submit(std::move(request), Nanos(0)).ok());
  }
  executor_.hold();
  EXPECT_TRUE(core.start_step(Nanos(0)));
  core.start_step(millis(1));
  EXPECT_EQ(executor_.steps(), 1) << "behind the first the other waits for its weights";
}

// The second arrival in a row fails under a step that waits for it. With that step ends the model's
// only request, and the engine sleeps until the next one comes.
TEST_F(StepStartTest, AFailureIsNotToldToARequestThatComesLater) {
  const Status failure = unavailable("a copy failed");
  ask(ModelId(1), Nanos(0));
  mover_.arrive(failure);
  EXPECT_FALSE(core_.start_step(millis(1)));
  EXPECT_TRUE(core_.take_outputs().empty()) << "it is tried once more";
  ASSERT_TRUE(core_.start_step(seconds(1))) << "just in time";
  mover_.arrive(failure);
  core_.finish_step(*executor_.wait(Nanos(0)), seconds(2));
  const auto lost = core_.take_outputs();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].error, "weights of the model could not be brought: a copy failed");
  ASSERT_TRUE(core_.idle());

  ask(ModelId(1), seconds(4));
  EXPECT_TRUE(core_.take_outputs().empty()) << "nothing has failed since it came";
  mover_.arrive();
  ASSERT_TRUE(core_.start_step(seconds(6)));
  core_.finish_step(*executor_.wait(Nanos(0)), seconds(6));
  const auto outputs = core_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error, "");
  EXPECT_EQ(outputs[0].reason, request::FinishReason::kLength);
}

TEST_F(StepStartTest, NoStepHoldsADeviceThatOthersUse) {
  ask(ModelId(1), Nanos(0));
  mover_.arrive();
  ASSERT_TRUE(core_.start_step(seconds(1)));
  executor_.hold();
  ask(ModelId(2), seconds(1));
  core_.start_step(seconds(2) - micros(1));
  EXPECT_EQ(executor_.steps(), 1) << "behind the other it would wait for its weights";
  core_.start_step(seconds(2));
  EXPECT_EQ(executor_.steps(), 2);
}

}  // namespace
}  // namespace causeway::engine::engine_core_switch_test
