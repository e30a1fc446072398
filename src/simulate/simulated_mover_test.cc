#include "simulate/simulated_mover.h"

#include <gtest/gtest.h>

namespace causeway::simulate::simulated_mover_test {
namespace {

using weights::WeightCommand;
using Kind = WeightCommand::Kind;

constexpr ModelId kModel(7);

WeightCommand bring(int group, std::uint32_t arrival) {
  WeightCommand command;
  command.model = kModel;
  command.group = group;
  command.arrival = arrival;
  return command;
}

WeightCommand change(Kind kind, std::int64_t first, std::int64_t extents) {
  return {.kind = kind, .model = kModel, .first_extent = first, .extents = extents};
}

// Two groups of 1,000 and 500 bytes on two extents of 1,000; 1,000 bytes take 1 ms, and 10 µs more.
class SimulatedMoverTest : public ::testing::Test {
 protected:
  void make(double error_rate, std::int64_t extents_max = 2, bool copies_out = false) {
    mover_.emplace(SimulatedMoverOptions{.bytes_per_second = 1e6,
                                         .error_rate = error_rate,
                                         .copies_out = copies_out,
                                         .extent = Bytes(1000),
                                         .extents_max = extents_max},
                   clock_);
    mover_->add_model(kModel, {.groups = {{.offset = Bytes(0), .bytes = Bytes(1000)},
                                          {.offset = Bytes(1000), .bytes = Bytes(500)}},
                               .layout_groups = {0, 1}});
  }
  void submit(const std::vector<WeightCommand>& commands) { mover_->submit(commands); }

  ManualClock clock_;
  std::optional<SimulatedMover> mover_;
};

TEST_F(SimulatedMoverTest, CopiesCrossOneAfterTheOther) {
  make(0);
  clock_.set(millis(5));
  submit({change(Kind::kCommit, 0, 2), bring(0, 1), bring(1, 1)});
  EXPECT_EQ(mover_->next_end(), millis(6) + micros(10));
  EXPECT_EQ(mover_->arrives_at(kModel, 1), millis(6) + micros(520));
  EXPECT_TRUE(mover_->poll().empty());
  clock_.set(millis(6) + micros(10));
  EXPECT_EQ(mover_->next_end(), millis(6) + micros(520));
  const auto first = mover_->poll();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].group, 0);
  EXPECT_EQ(first[0].arrival, 1u);
  EXPECT_TRUE(first[0].outcome.ok());
  clock_.set(millis(20));
  EXPECT_EQ(mover_->next_end(), std::nullopt);
  EXPECT_EQ(mover_->poll().size(), 1u);
  EXPECT_EQ(mover_->poll().size(), 0u);
  EXPECT_EQ(mover_->arrives_at(kModel, 1), std::nullopt);
  EXPECT_TRUE(mover_->copy_of(kModel, 1).has_value());
  EXPECT_EQ(mover_->violation(), "");
}

// Sleep and wake: what leaves crosses the link before what comes in its place.
TEST_F(SimulatedMoverTest, WhatIsDroppedMayHaveToBeCopiedOutFirst) {
  for (const bool copies_out : {false, true}) {
    make(0, 2, copies_out);
    clock_.set(seconds(0));
    submit({change(Kind::kCommit, 0, 2), bring(0, 1)});
    clock_.set(millis(10));
    EXPECT_EQ(mover_->poll().size(), 1u);
    submit({change(Kind::kDecommit, 0, 1), change(Kind::kCommit, 0, 1), bring(1, 1)});
    const Nanos out = copies_out ? millis(1) + micros(10) : Nanos(0);
    EXPECT_EQ(mover_->arrives_at(kModel, 1), millis(10) + out + micros(510));
    EXPECT_EQ(mover_->bytes_out(), Bytes(copies_out ? 1000 : 0));
    // Memory in which nothing has arrived has nothing to save.
    clock_.set(seconds(1));
    submit({change(Kind::kDecommit, 0, 1)});
    EXPECT_EQ(mover_->bytes_out(), Bytes(copies_out ? 1000 : 0));
    EXPECT_EQ(mover_->violation(), "");
  }
}

TEST_F(SimulatedMoverTest, AFailedCopyEndsInAnErrorAndIsBroughtAgain) {
  make(1);
  submit({change(Kind::kCommit, 0, 1), bring(0, 1)});
  clock_.set(seconds(1));
  const auto events = mover_->poll();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].outcome.error().code, ErrorCode::kDevice);
  EXPECT_EQ(mover_->failures(), 1);
  EXPECT_TRUE(mover_->copy_of(kModel, 0)->failed);
  submit({bring(0, 2)});
  EXPECT_EQ(mover_->copy_of(kModel, 0)->arrival, 2u);
  EXPECT_EQ(mover_->violation(), "");
}

TEST_F(SimulatedMoverTest, WhatLosesItsMemoryIsThereNoMore) {
  make(0);
  submit({change(Kind::kCommit, 0, 2), bring(0, 1), bring(1, 1)});
  clock_.set(seconds(1));
  submit({change(Kind::kDecommit, 1, 1)});
  EXPECT_TRUE(mover_->copy_of(kModel, 0).has_value());
  EXPECT_FALSE(mover_->copy_of(kModel, 1).has_value());
  EXPECT_EQ(mover_->committed_extents(), 1);
  EXPECT_EQ(mover_->violation(), "");
  mover_->remove_model(kModel);
  EXPECT_NE(mover_->violation(), "");
}

// Frames have one of three extents at the start, and there is memory for one more.
class SimulatedFrames : public ::testing::Test {
 protected:
  static WeightCommand frames(Kind kind, std::int64_t first, std::int64_t extents) {
    return {.kind = kind, .model = {}, .first_extent = first, .extents = extents};
  }
  void submit(const WeightCommand& command) { mover_.submit({&command, 1}); }

  ManualClock clock_;
  SimulatedMoverOptions options_{.bytes_per_second = 1e6,
                                 .extents_max = 2,
                                 .frames_per_extent = 4,
                                 .frame_extents = 1,
                                 .frame_extents_max = 3,
                                 .frame_latency = millis(1)};
  SimulatedMover mover_{options_, clock_};
};

TEST_F(SimulatedFrames, GetTheirMemoryAfterAWhile) {
  EXPECT_TRUE(mover_.frame_memory(FrameId(3)));
  EXPECT_FALSE(mover_.frame_memory(FrameId(8)));
  submit(frames(Kind::kCommit, 2, 1));
  EXPECT_FALSE(mover_.frame_memory(FrameId(8)));
  EXPECT_EQ(mover_.next_end(), millis(1));
  clock_.set(millis(1));
  const auto events = mover_.poll();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_FALSE(events[0].model.valid());
  EXPECT_EQ(events[0].extent, 2);
  EXPECT_TRUE(events[0].outcome.ok());
  EXPECT_EQ(mover_.frame_memory(FrameId(8)), 1);
  submit(frames(Kind::kDecommit, 0, 1));
  EXPECT_FALSE(mover_.frame_memory(FrameId(0)));
  EXPECT_EQ(mover_.frame_moves().got, 1);
  EXPECT_EQ(mover_.frame_moves().gave, 1);
  EXPECT_EQ(mover_.violation(), "");
}

TEST_F(SimulatedFrames, MayFindNoMemory) {
  options_.frame_error_rate = 1;
  SimulatedMover mover(options_, clock_);
  const WeightCommand command = frames(Kind::kCommit, 1, 1);
  mover.submit({&command, 1});
  clock_.set(millis(1));
  EXPECT_EQ(mover.poll().at(0).outcome.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(mover.frame_memory(FrameId(4)));
  mover.submit({&command, 1});
  EXPECT_EQ(mover.violation(), "");
}

TEST_F(SimulatedFrames, SayWhatCommandsBreak) {
  for (const WeightCommand& wrong :
       {frames(Kind::kCommit, 0, 1), frames(Kind::kDecommit, 1, 1), frames(Kind::kCommit, 1, 2)}) {
    SimulatedMover mover(options_, clock_);
    mover.submit({&wrong, 1});
    EXPECT_NE(mover.violation(), "");
  }
}

TEST_F(SimulatedMoverTest, SaysWhatCommandsBreak) {
  const std::vector<std::vector<WeightCommand>> wrong = {
      {bring(0, 1)},
      {change(Kind::kDecommit, 0, 1)},
      {change(Kind::kCommit, 0, 2)},  // there is one extent
      {change(Kind::kCommit, 0, 1), change(Kind::kCommit, 0, 1)},
      {change(Kind::kCommit, 0, 1), bring(0, 1), change(Kind::kDecommit, 0, 1)},
      {change(Kind::kCommit, 0, 1), bring(0, 1), bring(0, 2)},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    make(0, 1);
    submit(wrong[i]);
    EXPECT_NE(mover_->violation(), "") << i;
  }
}

}  // namespace
}  // namespace causeway::simulate::simulated_mover_test
