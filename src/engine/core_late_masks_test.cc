// Sequences whose output must match a grammar, with an executor that takes masks late: they are in
// two steps at once like all others, and the mask is supplied while the second step computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "engine/testing/core_requests.h"
#include "engine/testing/told_matcher.h"

namespace causeway::engine::core_late_masks_test {
namespace {

using request::MaskState;

class LateMasks : public ::testing::Test {
 protected:
  LateMasks() : executor_(/*late_masks=*/true), core_({.frames = 64, .schedule = {}}, executor_) {
    EXPECT_TRUE(core_.add_model(kModel, kFacts).ok());
  }

  void submit(std::int64_t id, Told* told) {
    request::Request request = make_request(id, 3, 40);
    if (told != nullptr) request.constraint = std::make_shared<ToldConstraint>(*told);
    const Status taken = core_.submit(std::move(request), now_);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
  }
  void start() {
    core_.start_step(now_);
    EXPECT_TRUE(core_.check_integrity().ok());
  }
  void start_both() {
    submit(1, &told_);
    submit(2, &other_);
    start();
  }
  void end_step() {
    core_.finish_step(executor_.end_oldest(), now_);
    start();
  }
  // As the engine's loop does while a mask is late.
  void look(int times) {
    for (int i = 0; i < times; ++i) {
      now_ = now_ + millis(1);
      start();
    }
  }
  std::vector<std::int64_t> supplied() const {
    std::vector<std::int64_t> ids;
    for (const request::LateMask& mask : executor_.supplied) ids.push_back(mask.request.value);
    return ids;
  }
  std::vector<request::Output> ended() {
    std::vector<request::Output> outputs = core_.take_outputs();
    std::erase_if(outputs, [](const request::Output& output) { return !output.finished; });
    return outputs;
  }

  Told told_, other_;
  SlowExecutor executor_;
  EngineCore core_;
  Nanos now_{0};
};

TEST_F(LateMasks, AreSuppliedForTheStepThatIsInFlight) {
  submit(1, &told_);
  start();
  ASSERT_EQ(executor_.batches.size(), 2u);
  EXPECT_EQ(executor_.batches[0].entries[0].edits.mask.size(), 63u);
  EXPECT_TRUE(executor_.batches[1].entries[0].edits.mask.empty());
  EXPECT_TRUE(executor_.batches[1].awaits_masks());
  EXPECT_TRUE(request::is_pending(executor_.batches[1].tokens[0]));
  for (std::uint32_t i = 1; i <= 20; ++i) {
    end_step();
    ASSERT_EQ(executor_.supplied.size(), 1u);
    EXPECT_EQ(executor_.supplied[0].mask[0], i) << "the mask behind all tokens so far";
    ASSERT_EQ(executor_.batches.size(), 2u);
    EXPECT_FALSE(executor_.batches[0].awaits_masks());
    EXPECT_TRUE(executor_.batches[1].awaits_masks());
  }
  EXPECT_EQ(told_.tokens.size(), 20u);
}

TEST_F(LateMasks, OthersAreInTheSameSteps) {
  submit(1, &told_);
  submit(2, nullptr);
  submit(3, &other_);
  start();
  for (int i = 0; i < 10; ++i) {
    for (const std::int64_t id : {1, 2, 3}) {
      EXPECT_EQ(executor_.steps_of(id), (std::vector<int>{0, 1})) << id;
    }
    end_step();
    EXPECT_EQ(supplied(), (std::vector<std::int64_t>{1, 3}));
  }
}

TEST_F(LateMasks, AStepWaitsALittleForOneThatIsLate) {
  submit(1, &told_);
  submit(2, nullptr);
  start();
  told_.state = MaskState::kComputing;
  end_step();
  EXPECT_EQ(executor_.batches.size(), 1u) << "nothing is enqueued behind a step that awaits masks";
  EXPECT_TRUE(executor_.batches[0].awaits_masks());
  EXPECT_EQ(core_.next_wakeup(), now_ + millis(1));
  look(3);
  EXPECT_TRUE(executor_.batches[0].awaits_masks());
  told_.state = MaskState::kReady;
  look(1);
  EXPECT_EQ(supplied(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(executor_.batches.size(), 2u);
  for (int i = 0; i < 5; ++i) end_step();
  EXPECT_EQ(told_.tokens.size(), 6u);
}

TEST_F(LateMasks, OneThatIsLateForLongStepsBack) {
  submit(1, &told_);
  submit(2, nullptr);
  start();
  told_.state = MaskState::kComputing;
  end_step();
  look(10);
  EXPECT_TRUE(supplied().empty());
  ASSERT_EQ(executor_.batches.size(), 2u) << "the others go on";
  EXPECT_EQ(executor_.steps_of(2), (std::vector<int>{0, 1}));
  told_.state = MaskState::kReady;
  look(1);
  EXPECT_EQ(executor_.steps_of(1), (std::vector<int>{0})) << "what it samples there is void";
  end_step();
  look(1);
  // It is admitted again after its first token, and is in one step at a time from then on.
  for (int i = 0; i < 12; ++i) {
    EXPECT_LE(executor_.steps_of(1).size(), 1u);
    end_step();
    look(1);
  }
  EXPECT_GE(told_.tokens.size(), 5u);
  EXPECT_LE(told_.tokens.size(), 7u);
  const auto tokens = told_.tokens;
  std::int64_t out = 0;
  for (const request::Output& output : core_.take_outputs()) {
    if (output.request == RequestId(1)) out += std::ssize(output.tokens);
  }
  EXPECT_EQ(out, std::ssize(tokens)) << "what came out is what the grammar has seen";
}

TEST_F(LateMasks, NoneIsAwaitedOfThoseThatEnd) {
  start_both();
  other_.state = MaskState::kComputing;
  core_.cancel(RequestId(2), now_);
  end_step();
  EXPECT_EQ(supplied(), (std::vector<std::int64_t>{1}));
  told_.state = MaskState::kImpossible;
  end_step();
  EXPECT_TRUE(executor_.supplied.empty());
  const auto outputs = ended();
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[1].code, ErrorCode::kInvalidArgument);
  while (!executor_.batches.empty()) end_step();
  EXPECT_TRUE(core_.idle());
}

// Text between calls of tools: every token may come, and that follows as a mask does.
TEST_F(LateMasks, EmptyOnesAreSuppliedAsOthersAre) {
  told_.free = true;
  submit(1, &told_);
  submit(2, &other_);
  submit(3, nullptr);
  start();
  ASSERT_EQ(executor_.batches.size(), 2u);
  EXPECT_TRUE(executor_.batches[0].entries[0].edits.mask.empty());
  EXPECT_FALSE(executor_.batches[0].entries[0].edits.mask_follows);
  EXPECT_TRUE(executor_.batches[1].awaits_masks());
  for (int i = 0; i < 12; ++i) {
    told_.free = i % 4 != 3;  // now and then a call begins
    end_step();
    ASSERT_EQ(supplied(), (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(executor_.supplied[0].mask.empty(), told_.free) << i;
    EXPECT_EQ(executor_.supplied[1].mask.size(), 63u);
    for (const std::int64_t id : {1, 2, 3}) {
      EXPECT_EQ(executor_.steps_of(id), (std::vector<int>{0, 1})) << id;
    }
  }
  EXPECT_EQ(told_.tokens.size(), 12u);
}

TEST_F(LateMasks, AnEmptyOneMayBeLate) {
  told_.free = true;
  start_both();
  told_.state = MaskState::kComputing;  // of the call before the text
  end_step();
  EXPECT_TRUE(executor_.batches[0].awaits_masks()) << "an empty mask is not one that is not there";
  look(3);
  EXPECT_TRUE(executor_.batches[0].awaits_masks());
  told_.state = MaskState::kReady;
  look(1);
  ASSERT_EQ(supplied(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(executor_.supplied[0].mask.empty());
  EXPECT_FALSE(executor_.supplied[1].mask.empty());
  told_.state = MaskState::kComputing;
  end_step();
  look(30);
  EXPECT_EQ(executor_.steps_of(2), (std::vector<int>{0, 1})) << "it stepped back, others go on";
  told_.state = MaskState::kReady;
  end_step();
  for (int i = 0; i < 6; ++i) {
    look(1);
    EXPECT_LE(executor_.steps_of(1).size(), 1u);
    end_step();
  }
  EXPECT_GE(told_.tokens.size(), 3u);
}

TEST_F(LateMasks, AnEmptyOneIsNotAwaitedOfOneThatIsCancelled) {
  told_.free = true;
  start_both();
  told_.state = MaskState::kComputing;
  end_step();
  EXPECT_TRUE(executor_.batches[0].awaits_masks());
  core_.cancel(RequestId(1), now_);
  told_.state = MaskState::kReady;  // it comes behind the cancellation
  look(1);
  EXPECT_EQ(supplied(), (std::vector<std::int64_t>{2}));
  for (int i = 0; i < 5; ++i) end_step();
  EXPECT_EQ(ended().size(), 1u);
  EXPECT_EQ(told_.tokens.size(), 1u) << "nothing follows it any more";
  EXPECT_EQ(other_.tokens.size(), 6u);
  core_.cancel(RequestId(2), now_);
  while (!executor_.batches.empty()) end_step();
  EXPECT_TRUE(core_.idle());
}

// The executor takes what it is given; that no token continues the form its matcher says.
TEST_F(LateMasks, OneWithoutABitEndsItsRequestAlone) {
  start_both();
  told_.none = true;
  end_step();
  ASSERT_EQ(supplied(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(executor_.supplied[0].mask, std::vector<std::uint32_t>(63, 0));
  EXPECT_NE(executor_.supplied[1].mask[0], 0u);
  told_.state = MaskState::kImpossible;  // of any token behind it
  end_step();
  EXPECT_EQ(supplied(), (std::vector<std::int64_t>{2}));
  const auto outputs = ended();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].request, RequestId(1));
  EXPECT_EQ(outputs[0].code, ErrorCode::kInvalidArgument);
  for (int i = 0; i < 5; ++i) end_step();
  EXPECT_EQ(executor_.steps_of(2), (std::vector<int>{0, 1}));
  core_.cancel(RequestId(2), now_);
  while (!executor_.batches.empty()) end_step();
  EXPECT_TRUE(core_.idle());
}

TEST_F(LateMasks, AStepBehindOneThatFailedEnds) {
  submit(1, &told_);
  start();
  request::StepResult failed = executor_.end_oldest();
  failed.sampled.clear();
  failed.error = "planted";
  core_.finish_step(failed, now_);
  start();
  EXPECT_TRUE(executor_.supplied.empty());
  ASSERT_EQ(executor_.batches.size(), 1u);
  EXPECT_FALSE(executor_.batches[0].awaits_masks());
  end_step();
  EXPECT_TRUE(core_.idle());
  EXPECT_EQ(ended().size(), 1u);
}

}  // namespace
}  // namespace causeway::engine::core_late_masks_test
