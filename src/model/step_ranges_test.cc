#include "model/step_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "model/model_card.h"

namespace causeway::model::step_ranges_test {
namespace {

using ::testing::ElementsAre;
using weights::WeightPlace;
using weights::WeightView;

// A semaphore that only the test's thread uses.
class Counter final : public device::Semaphore {
 public:
  std::uint32_t value() const override { return value_; }
  void raise(std::uint32_t value) override { value_ = value; }
  Status wait(std::uint32_t, Nanos) const override { return {}; }

 private:
  std::uint32_t value_ = 0;
};

class StepRangesTest : public ::testing::Test {
 protected:
  StepRangesTest() {
    config_.layers = 6;
    views_.resize(static_cast<std::size_t>(head_group(config_)) + 1);
  }
  void stream(int group) {
    views_[static_cast<std::size_t>(group)] = {
        .place = WeightPlace::kStaged, .ready = &arrived_, .value = 1, .consumed = &consumed_};
  }

  ModelConfig config_;
  std::vector<WeightView> views_;
  Counter arrived_;
  Counter consumed_;
};

TEST_F(StepRangesTest, ResidentLayersGoTogetherFourAtTheMost) {
  EXPECT_THAT(step_ranges(config_, views_),
              ElementsAre(StepRange{0, 4, true, false}, StepRange{4, 6, false, true}));
  EXPECT_THAT(step_ranges(config_, {}),
              ElementsAre(StepRange{0, 4, true, false}, StepRange{4, 6, false, true}));
}

TEST_F(StepRangesTest, StreamedLayersAndHeadsStandAlone) {
  stream(layer_group(0));
  stream(layer_group(3));
  stream(head_group(config_));
  EXPECT_THAT(step_ranges(config_, views_),
              ElementsAre(StepRange{0, 1, true, false}, StepRange{1, 3, false, false},
                          StepRange{3, 4, false, false}, StepRange{4, 6, false, false},
                          StepRange{6, 6, false, true}));
}

TEST_F(StepRangesTest, ARangeWaitsForAllThatItReads) {
  stream(layer_group(1));
  const auto ranges = step_ranges(config_, views_);
  EXPECT_TRUE(has_arrived(ranges[0], config_, views_));
  EXPECT_FALSE(has_arrived(ranges[1], config_, views_));
  arrived_.raise(1);
  EXPECT_TRUE(has_arrived(ranges[1], config_, views_));
}

TEST_F(StepRangesTest, EveryLayerIsThereOnce) {
  Random random(43);
  for (int round = 0; round < 200; ++round) {
    config_.layers = random.between(1, 40);
    views_.assign(static_cast<std::size_t>(head_group(config_)) + 1, {});
    for (int group = 1; group < static_cast<int>(views_.size()); ++group) {
      if (random.chance(0.5)) stream(group);
    }
    std::int64_t next = 0;
    int fronts = 0, heads = 0;
    for (const StepRange& range : step_ranges(config_, views_)) {
      EXPECT_EQ(range.first, next);
      next = range.end;
      fronts += range.front ? 1 : 0;
      heads += range.head ? 1 : 0;
    }
    EXPECT_EQ(next, config_.layers);
    EXPECT_EQ(fronts, 1);
    EXPECT_EQ(heads, 1);
  }
}

}  // namespace
}  // namespace causeway::model::step_ranges_test
