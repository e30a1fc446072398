// Copies of KV in virtual time, alone and beside steps that wait for them.
#include "simulate/simulated_copies.h"

#include <gtest/gtest.h>

#include "simulate/simulated_executor.h"

namespace causeway::simulate::simulated_copies_test {
namespace {

using kv::KvCopy;
using Direction = KvCopy::Direction;
using Outcome = kv::KvCopyEnd::Outcome;

constexpr ModelId kModel(0);
constexpr std::int64_t kVocab = 100;

// A copy takes 1 ms in and 2 ms out, and each submission 0.5 ms before it begins.
SimulatedCopiesOptions links(double error_rate = 0) {
  return {.frame = Bytes(1000),
          .bytes_in_per_second = 1e6,
          .bytes_out_per_second = 5e5,
          .latency = micros(500),
          .error_rate = error_rate};
}

// A step takes 2 ms.
SimulatedExecutorOptions options(double error_rate = 0) {
  SimulatedExecutorOptions options;
  options.profile.flops_per_second = 1e12;
  options.profile.memory_bytes_per_second = options.profile.attention_bytes_per_second = 1e6;
  options.profile.step_overhead = millis(1);
  options.shadow_frames = 4;
  options.tokens_per_block_max = 1;
  options.steps_in_flight_max = 2;
  options.copies = links(error_rate);
  return options;
}

class SimulatedCopiesTest : public ::testing::Test {
 protected:
  void open(double error_rate = 0) {
    clock_.set(Nanos(0));
    executor_ = std::make_unique<SimulatedExecutor>(options(error_rate), clock_);
    ModelShape shape;
    shape.vocab = kVocab;
    shape.weights_always = Bytes(1000);
    executor_->add_model(kModel, shape, WeightSource::kMemory);
  }
  KvCopy copy(Direction direction, std::int64_t frame, std::int64_t twin,
              KvCopy::Reason reason = KvCopy::Reason::kRotation) {
    return {kv::CopyId(next_++), direction, reason, FrameId(frame), TwinId(twin)};
  }

  // A step of the sequence's token `context`, whose KV lies in these frames, a token each.
  request::Batch batch(std::int64_t step, std::vector<FrameId> frames) {
    request::Batch batch;
    batch.step = StepId(step);
    batch.model = kModel;
    batch.tokens = {token(std::ssize(frames) - 1)};
    batch.entries.resize(1);
    batch.entries[0].token_count = 1;
    batch.entries[0].context = static_cast<std::int32_t>(frames.size()) - 1;
    batch.entries[0].frame_count = static_cast<std::int32_t>(frames.size());
    batch.entries[0].samples = true;
    batch.frames = std::move(frames);
    return batch;
  }
  static TokenId token(std::int64_t position) { return static_cast<TokenId>(7 + position); }
  static TokenId expected(std::int64_t length) {
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i < length; ++i) tokens.push_back(token(i));
    return expected_token(kModel, tokens, kVocab);
  }
  // The next result, with the clock moved as far as that takes; what copies become, meanwhile.
  request::StepResult next_result() {
    while (true) {
      if (auto result = executor_->wait(Nanos(0))) {
        poll();
        return *result;
      }
      poll();
      clock_.set(executor_->next_event().value());
    }
  }
  void poll() {
    for (const kv::KvCopyEnd& end : executor_->poll_copies()) ends_.push_back(end);
  }

  ManualClock clock_;
  std::unique_ptr<SimulatedExecutor> executor_;
  std::vector<kv::KvCopyEnd> ends_;
  std::int64_t next_ = 0;
};

TEST_F(SimulatedCopiesTest, DirectionsGoAtOnceAndEachOneAfterTheOther) {
  SimulatedCopies copies(links(), nullptr);
  copies.submit(std::vector{copy(Direction::kOut, 0, 0), copy(Direction::kIn, 1, 1),
                            copy(Direction::kIn, 2, 2)},
                Nanos(0));
  EXPECT_EQ(copies.ready_at(kv::CopyId(1)), micros(2500));  // one submission
  EXPECT_LT(copies.ready_at(kv::CopyId(0)), Nanos(0));
  copies.submit(std::vector{copy(Direction::kIn, 3, 3)}, Nanos(0));
  EXPECT_EQ(copies.ready_at(kv::CopyId(3)), micros(3500));
  EXPECT_EQ(copies.next_end(), micros(1500));
  copies.advance(micros(1500));
  EXPECT_TRUE(copies.take_ends().empty());
  EXPECT_TRUE(copies.copies_in_at(micros(3499)));
  EXPECT_FALSE(copies.copies_in_at(micros(3500)));
  copies.advance(micros(2500));
  EXPECT_EQ(copies.take_ends().size(), 3u);
  EXPECT_LT(copies.ready_at(kv::CopyId(2)), Nanos(0));
  copies.advance(seconds(1));
  EXPECT_EQ(copies.take_ends().size(), 1u);
  EXPECT_EQ(copies.next_end(), std::nullopt);
  EXPECT_EQ(copies.moved(Direction::kIn), Bytes(3000));
  EXPECT_EQ(copies.moved(Direction::kOut), Bytes(1000));
}

// A copy of 1 ms is late from 1 ms and four times that on.
TEST_F(SimulatedCopiesTest, WhatStallsIsGivenUpAndEndsLater) {
  SimulatedCopiesOptions stalled = links();
  stalled.stall_rate = 1;
  stalled.stall_max = seconds(100);
  stalled.late_max = millis(1);
  SimulatedCopies copies(stalled, nullptr);
  copies.submit(std::vector{copy(Direction::kIn, 0, 0)}, Nanos(0));
  EXPECT_EQ(copies.ready_at(kv::CopyId(0)), micros(5500)) << "then nobody waits for it any more";
  EXPECT_EQ(copies.next_end(), micros(5500));
  copies.advance(micros(5500));
  const auto late = copies.take_ends();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].outcome, Outcome::kGivenUp);
  EXPECT_EQ(copies.given_up(), 1);
  EXPECT_LT(copies.ready_at(kv::CopyId(0)), Nanos(0));
  EXPECT_GT(copies.next_end(), micros(5500));
  copies.advance(seconds(101));
  const auto ends = copies.take_ends();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kOk);
  EXPECT_EQ(copies.next_end(), std::nullopt);
}

TEST_F(SimulatedCopiesTest, WhoMustGoOvertakesEagerCopies) {
  SimulatedCopies copies(links(), nullptr);
  copies.submit(std::vector{copy(Direction::kOut, 0, 0, KvCopy::Reason::kEager),
                            copy(Direction::kOut, 1, 1, KvCopy::Reason::kEager)},
                Nanos(0));
  copies.submit(std::vector{copy(Direction::kOut, 2, 2)}, Nanos(0));
  copies.advance(micros(4500));
  const auto ends = copies.take_ends();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].copy, kv::CopyId(2));
}

TEST_F(SimulatedCopiesTest, AStepThatAwaitsCopiesBeginsWhenTheyHaveEnded) {
  open();
  ASSERT_TRUE(executor_->submit(batch(0, {FrameId(0)}), {}).ok());
  EXPECT_EQ(next_result().sampled.at(0).token.token, expected(1));
  executor_->begin_copies(std::vector{copy(Direction::kOut, 0, 5)});
  while (ends_.empty()) {
    clock_.set(executor_->next_event().value());
    poll();
  }
  EXPECT_EQ(clock_.now(), micros(4500));
  request::Batch second = batch(1, {FrameId(2), FrameId(1)});
  second.copies_in = {copy(Direction::kIn, 2, 5)};
  second.copies_awaited = second.copies_in[0].id;
  ASSERT_TRUE(executor_->submit(second, {}).ok());
  EXPECT_EQ(executor_->item_ends_at(), std::nullopt);
  const auto result = next_result();
  EXPECT_EQ(result.sampled.at(0).token.token, expected(2));
  EXPECT_EQ(result.duration, millis(2));
  EXPECT_EQ(clock_.now(), micros(4500 + 1500 + 2000));
  EXPECT_EQ(executor_->counters().kv_wait, micros(1500));
  EXPECT_EQ(ends_.size(), 2u);
  EXPECT_EQ(executor_->violation(), "");
}

TEST_F(SimulatedCopiesTest, WhoDoesNotAwaitThemOrWhoseCopyFailsReadsSomethingElse) {
  for (const bool fails : {false, true}) {
    open(fails ? 1 : 0);
    ASSERT_TRUE(executor_->submit(batch(0, {FrameId(0)}), {}).ok());
    (void)next_result();
    ends_.clear();
    request::Batch second = batch(1, {FrameId(0), FrameId(1)});
    second.copies_out = {copy(Direction::kOut, 0, 5)};
    ASSERT_TRUE(executor_->submit(second, {}).ok());
    EXPECT_EQ(next_result().sampled.at(0).token.token, expected(2));
    while (ends_.empty()) {
      clock_.set(executor_->next_event().value());
      poll();
    }
    EXPECT_EQ(ends_[0].outcome, fails ? Outcome::kFailed : Outcome::kOk);
    request::Batch third = batch(2, {FrameId(3), FrameId(1), FrameId(2)});
    third.copies_in = {copy(Direction::kIn, 3, 5)};
    if (fails) third.copies_awaited = third.copies_in[0].id;
    ASSERT_TRUE(executor_->submit(third, {}).ok());
    EXPECT_NE(next_result().sampled.at(0).token.token, expected(3));
    EXPECT_EQ(executor_->violation().empty(), !fails);  // nothing is in the twin
  }
}

TEST_F(SimulatedCopiesTest, FindsAFrameThatIsWrittenWhileItIsCopiedOut) {
  open();
  request::Batch first = batch(0, {FrameId(0)});
  first.copies_out = {copy(Direction::kOut, 0, 5)};
  ASSERT_TRUE(executor_->submit(first, {}).ok());
  (void)next_result();
  clock_.set(seconds(1));
  poll();
  EXPECT_EQ(executor_->violation(), "frame 0 changes while it is copied out");
}

}  // namespace
}  // namespace causeway::simulate::simulated_copies_test
