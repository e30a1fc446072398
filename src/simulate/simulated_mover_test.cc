#include "simulate/simulated_mover.h"

#include <gtest/gtest.h>

namespace causeway::simulate {
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
class SimulatedMoverTest : public testing::Test {
 protected:
  void make(double error_rate, std::int64_t extents_max = 2) {
    mover_.emplace(SimulatedMoverOptions{.bytes_per_second = 1e6,
                                         .error_rate = error_rate,
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
}  // namespace causeway::simulate
