#include "engine/memory_border.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/testing/log_lines.h"

namespace causeway::engine::memory_border_test {
namespace {

using Kind = weights::WeightCommand::Kind;

constexpr ModelId kOne(1), kTwo(2);
constexpr Bytes kExtent(1000);

// Records the commands; copies end when the test calls for it.
class HandMover final : public weights::WeightMover {
 public:
  void submit(std::span<const weights::WeightCommand> commands) override {
    for (const weights::WeightCommand& command : commands) {
      if (command.kind == Kind::kBring) brought_.push_back(command);
      if (command.model.valid()) continue;
      (command.kind == Kind::kCommit ? coming : gone).push_back(command.first_extent);
    }
  }
  std::vector<weights::WeightEvent> poll() override { return std::exchange(events_, {}); }
  bool issued(ModelId) const override { return true; }
  double granted_rate() const override { return 1e9; }
  const device::Semaphore* semaphore(ModelId, int) const override { return nullptr; }

  void arrive() {
    for (const weights::WeightCommand& bring : std::exchange(brought_, {})) {
      events_.push_back({bring.model, bring.group, bring.arrival, {}});
    }
  }
  void end_coming(const Status& outcome) {
    for (const std::int64_t extent : std::exchange(coming, {})) {
      weights::WeightEvent& event = events_.emplace_back();
      event.extent = extent;
      event.outcome = outcome;
    }
  }

  std::vector<std::int64_t> coming, gone;  // extents of frames, as commanded

 private:
  std::vector<weights::WeightCommand> brought_;
  std::vector<weights::WeightEvent> events_;
};

// Ten extents: KV has four of two frames each, and keeps one; weights have six, and two models of
// four, of which one is there.
class MemoryBorderTest : public ::testing::Test {
 protected:
  MemoryBorderTest() {
    kv_.add_model(kOne, Tokens(1));
    for (const ModelId model : {kOne, kTwo}) add(model, 4);
    ask(kOne);
    step();
    mover_.arrive();
    ask({});
    step();
  }
  ~MemoryBorderTest() override {
    const Status intact = border_.check_integrity();
    EXPECT_TRUE(intact.ok()) << (intact.ok() ? "" : intact.error().message);
  }

  void add(ModelId model, std::int64_t extents) {
    const weights::CachedModel cached{.groups = {{.offset = Bytes(0), .bytes = kExtent * extents}},
                                      .layout_groups = {0}};
    EXPECT_TRUE(cache_.add_model(model, cached).ok());
  }
  void replace(ModelId model, std::int64_t extents) {
    EXPECT_TRUE(cache_.remove_model(model).ok());
    add(model, extents);
  }
  // From now on only this model has requests.
  void ask(ModelId model) {
    demand_.clear();
    if (model.valid()) demand_.push_back({.model = model, .requests = 1, .arrived = 1});
  }
  void step() {
    now_ += millis(1);
    cache_.demand(demand_, now_);
    border_.decide(wanted_, now_);
    cache_.decide(now_);
    border_.hand_over();
  }
  void use_frames(RequestId sequence, std::int64_t frames) {
    kv_.open(sequence, kOne, {});
    ASSERT_TRUE(kv_.grow(sequence, Tokens(frames)));
  }

  HandMover mover_;
  weights::WeightCache cache_{{.extent = kExtent, .extents = 6, .extents_max = 9}, mover_};
  kv::KvCache kv_{{.frames = 8, .frames_max = 16, .twins = 8}};
  MemoryBorder border_{
      {.frames_per_extent = 2, .kv_min = 1, .kv_max = 8, .hold = seconds(1)}, kv_, cache_};
  std::vector<weights::ModelDemand> demand_;
  schedule::FramesWanted wanted_;
  Nanos now_;
};

TEST_F(MemoryBorderTest, KvGetsWhatNobodyUsesAndWaitsForItsMemory) {
  wanted_ = {.more = 12, .largest = 12};
  step();
  EXPECT_EQ(mover_.coming, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(cache_.residency().budget(), 4);
  EXPECT_EQ(kv_.frames(), 8);
  EXPECT_TRUE(border_.under_way());
  step();
  EXPECT_EQ(mover_.coming.size(), 2u) << "it is on its way";
  mover_.end_coming({});
  step();
  EXPECT_EQ(kv_.frames(), 12);
  EXPECT_FALSE(border_.under_way());
}

TEST_F(MemoryBorderTest, KvWaitsUntilModelsHaveLetGo) {
  replace(kTwo, 2);
  ask(kTwo);
  step();  // it arrives
  std::vector<weights::WeightView> views;
  cache_.step_begins(kOne, views);
  ask({});
  wanted_ = {.more = 12, .largest = 12};
  step();
  EXPECT_EQ(cache_.residency().budget(), 4);
  EXPECT_TRUE(mover_.coming.empty()) << "one is stepped, the other arrives";
  EXPECT_TRUE(border_.under_way());
  ASSERT_TRUE(cache_.step_ended(kOne, now_).ok());
  step();
  EXPECT_EQ(mover_.coming, (std::vector<std::int64_t>{4, 5}));
}

TEST_F(MemoryBorderTest, FramesThatNothingUsesGoAtOnce) {
  use_frames(RequestId(0), 3);  // of extents 0 and 1
  ask(kTwo);
  demand_.push_back({.model = kOne, .requests = 1, .arrived = 1});
  step();
  EXPECT_EQ(mover_.gone, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(cache_.residency().budget(), 8);
  EXPECT_EQ(cache_.residency().committed_extents(), 8) << "and the second model comes";
  EXPECT_EQ(kv_.frames(), 4);
}

TEST_F(MemoryBorderTest, FramesInUseGoWhenTheyAreFree) {
  use_frames(RequestId(0), 8);
  replace(kTwo, 8);
  ask(kTwo);
  step();
  EXPECT_TRUE(mover_.gone.empty());
  EXPECT_TRUE(border_.starved());
  EXPECT_EQ(kv_.frames(), 4) << "they are not handed out again";
  kv_.release(RequestId(0), StepId(0));
  step();
  EXPECT_TRUE(mover_.gone.empty()) << "a step may use them";
  kv_.step_done(StepId(0));
  step();
  EXPECT_EQ(mover_.gone, (std::vector<std::int64_t>{2, 3}));
  EXPECT_FALSE(border_.starved());
  EXPECT_EQ(cache_.residency().budget(), 8);
}

// Frame 4, of extent 2, is copied for ever.
TEST_F(MemoryBorderTest, AnExtentThatACopyHoldsIsTakenBackAndAnotherGoes) {
  const std::vector<TokenId> tokens(8, 7);
  kv_.open(RequestId(0), kOne, tokens);
  ASSERT_TRUE(kv_.grow(RequestId(0), Tokens(8)));
  kv_.commit(RequestId(0), tokens, StepId(0));
  kv_.step_done(StepId(0));
  std::vector<kv::KvCopy> copies;
  kv_.take_copies(8, copies);
  ASSERT_EQ(copies.size(), 8u);
  replace(kTwo, 8);
  ask(kTwo);
  step();
  EXPECT_TRUE(border_.starved()) << "two extents are to go";
  std::vector<RequestId> lost;
  kv::CopyId held;
  for (const kv::KvCopy& copy : copies) {
    if (copy.frame == FrameId(4)) {
      kv_.give_up_copy(held = copy.id, lost);
    } else {
      kv_.copy_ended(copy.id, true, lost);
    }
  }
  ASSERT_TRUE(held.valid());
  kv_.release(RequestId(0), StepId());
  step();
  EXPECT_EQ(mover_.gone, (std::vector<std::int64_t>{3}));
  ASSERT_TRUE(border_.again()) << "it looks again when the copy has had its time";
  const LogLines log;
  now_ = *border_.again() - millis(2);
  step();
  EXPECT_EQ(log.count("cannot give their memory to weights"), 0);
  step();
  EXPECT_EQ(log.count("cannot give their memory to weights"), 1);
  for (int i = 0; i < 3; ++i, now_ += seconds(2)) step();
  EXPECT_EQ(mover_.gone.size(), 2u);
  EXPECT_NE(mover_.gone.back(), 2) << "another goes";
  EXPECT_EQ(cache_.residency().budget(), 8);
  EXPECT_FALSE(border_.starved());
  EXPECT_EQ(log.count("cannot give their memory to weights"), 1);
  kv_.copy_ended(held, true, lost);
  EXPECT_EQ(kv_.counts().available(), 4) << "what was held is of use again";
}

TEST_F(MemoryBorderTest, WhatRetiresIsTakenBackWhenKvLacksIt) {
  use_frames(RequestId(0), 3);  // of extents 0 and 1
  replace(kTwo, 9);
  ask(kTwo);
  step();
  EXPECT_EQ(mover_.gone, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(kv_.frames(), 2);
  ask({});
  ASSERT_TRUE(cache_.remove_model(kTwo).ok());
  wanted_ = {.more = 1, .largest = 4};
  step();
  EXPECT_EQ(kv_.frames(), 4);
  EXPECT_EQ(mover_.gone.size(), 2u);
  EXPECT_TRUE(mover_.coming.empty());
  EXPECT_FALSE(border_.under_way());
}

TEST_F(MemoryBorderTest, MemoryThatDoesNotComeGoesBack) {
  wanted_ = {.more = 12, .largest = 12};
  step();
  mover_.end_coming(exhausted("no memory"));
  step();
  EXPECT_EQ(cache_.residency().budget(), 6);
  EXPECT_EQ(kv_.frames(), 8);
  EXPECT_EQ(border_.take_failure(), "no memory");
  EXPECT_EQ(border_.take_failure(), std::nullopt);
  ASSERT_TRUE(border_.again()) << "it tries again, after a while";
  EXPECT_TRUE(mover_.coming.empty());
  now_ = *border_.again();
  step();
  EXPECT_EQ(mover_.coming.size(), 2u);
}

TEST_F(MemoryBorderTest, TheLimitIsWhatTheLargestModelLeaves) {
  EXPECT_EQ(border_.frames_limit(), 12);
  ASSERT_TRUE(cache_.remove_model(kOne).ok());
  ASSERT_TRUE(cache_.remove_model(kTwo).ok());
  EXPECT_EQ(border_.frames_limit(), 16) << "its addresses";
}

}  // namespace
}  // namespace causeway::engine::memory_border_test
