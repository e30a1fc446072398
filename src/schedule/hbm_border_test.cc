#include "schedule/hbm_border.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace causeway::schedule::hbm_border_test {
namespace {

constexpr BorderRules kRules{.frames_per_extent = 8, .kv_min = 2, .kv_max = 60, .hold = seconds(2)};

class HbmBorder : public ::testing::Test {
 protected:
  BorderDecision decide() { return decide_border(kRules, kv_, weights_, last_, moved_, now_); }
  // What moves to a side; negative: to the other side.
  std::int64_t moves(BorderSide to) {
    const BorderMove move = decide().move;
    return move.to == to ? move.extents : -move.extents;
  }

  // 20 extents for KV, 30 for weights; nothing lacks anywhere.
  KvDemand kv_{.usable = 160, .in_use = 80, .wanted = 0, .largest = 20};
  WeightDemand weights_{
      .budget = 30, .used = 28, .idle = 10, .wanted = 0, .largest = 10, .least = 12};
  std::optional<BorderMove> last_;
  Nanos moved_ = seconds(0);
  Nanos now_ = seconds(100);
};

TEST_F(HbmBorder, StaysWhereNothingLacks) {
  EXPECT_EQ(moves(BorderSide::kKv), 0);
  EXPECT_FALSE(decide().again);
}

TEST_F(HbmBorder, RequestsThatWaitGetWhatModelsWithoutRequestsHold) {
  kv_.wanted = 80;
  EXPECT_EQ(moves(BorderSide::kKv), 0) << "they fit";
  kv_.wanted = 81;
  EXPECT_EQ(moves(BorderSide::kKv), 1);
  kv_.wanted = 160;
  EXPECT_EQ(moves(BorderSide::kKv), 10);
  kv_.wanted = 1000;
  EXPECT_EQ(moves(BorderSide::kKv), 12) << "two that nobody holds, and the idle ones";
  weights_.wanted = 5;
  EXPECT_EQ(moves(BorderSide::kKv), 7) << "less what models with requests are about to take";
  weights_.wanted = 13;
  EXPECT_EQ(moves(BorderSide::kKv), 0);
}

TEST_F(HbmBorder, KvNeverTakesTheRoomOfTheLargestModel) {
  kv_.wanted = 1000;
  weights_.idle = 28;
  EXPECT_EQ(moves(BorderSide::kKv), 18);
  weights_.least = 29;
  EXPECT_EQ(moves(BorderSide::kKv), 1);
}

TEST_F(HbmBorder, KvGrowsNoFurtherThanItsAddresses) {
  kv_ = {.usable = 58 * 8, .in_use = 58 * 8, .wanted = 400, .largest = 20};
  EXPECT_EQ(moves(BorderSide::kKv), 2);
  kv_.usable = kv_.in_use = 60 * 8;
  EXPECT_EQ(moves(BorderSide::kKv), 0);
}

TEST_F(HbmBorder, ModelsThatWouldPushEachOtherOutGetWhatKvCanSpare) {
  weights_.wanted = 12;
  EXPECT_EQ(moves(BorderSide::kWeights), 0) << "models without requests give way";
  weights_.wanted = 13;
  EXPECT_EQ(moves(BorderSide::kWeights), 1);
  weights_.wanted = 100;
  // 160 frames, 80 of them in use, 20 kept.
  EXPECT_EQ(moves(BorderSide::kWeights), 7);
  kv_.wanted = 9;
  EXPECT_EQ(moves(BorderSide::kWeights), 6);
  kv_ = {.usable = 160, .in_use = 0, .wanted = 0, .largest = 0};
  EXPECT_EQ(moves(BorderSide::kWeights), 18) << "all but the least";
  kv_.largest = 90;
  EXPECT_EQ(moves(BorderSide::kWeights), 8) << "all but what one request needs";
}

TEST_F(HbmBorder, TheLongestRequestGetsItsFramesAlsoFromModelsInUse) {
  weights_.idle = 0;
  weights_.used = 30;
  kv_.largest = 170;
  EXPECT_EQ(moves(BorderSide::kKv), 2);
  last_ = {BorderSide::kWeights, 1};
  moved_ = now_;
  EXPECT_EQ(moves(BorderSide::kKv), 2) << "at any time";
  kv_.largest = 1000;
  EXPECT_EQ(moves(BorderSide::kKv), 18) << "but the largest model's";
}

TEST_F(HbmBorder, TheLargestModelGetsItsRoomAlsoFromFramesInUse) {
  kv_.in_use = 160;
  weights_.largest = 35;
  EXPECT_EQ(moves(BorderSide::kWeights), 5);
  kv_.largest = 140;
  EXPECT_EQ(moves(BorderSide::kWeights), 2) << "but the longest request's";
}

TEST_F(HbmBorder, DoesNotTurnBackBeforeItsTime) {
  weights_.wanted = 13;
  last_ = {BorderSide::kKv, 3};
  moved_ = now_ - seconds(1);
  EXPECT_EQ(moves(BorderSide::kWeights), 0);
  EXPECT_EQ(decide().again, now_ + seconds(1));
  last_->to = BorderSide::kWeights;
  EXPECT_EQ(moves(BorderSide::kWeights), 1) << "further the same way";
  last_->to = BorderSide::kKv;
  now_ += seconds(1);
  EXPECT_EQ(moves(BorderSide::kWeights), 1);
}

// Random demands, some of which last.
class RandomBorder {
 public:
  explicit RandomBorder(std::uint64_t seed) : random_(seed) {
    rules_.frames_per_extent = random_.between(1, 16);
    rules_.kv_min = random_.between(1, 10);
    rules_.kv_max = rules_.kv_min + random_.between(0, 80);
    rules_.hold = millis(random_.between(0, 100));
    kv_extents_ = random_.between(rules_.kv_min, rules_.kv_max);
    weights_.budget = random_.between(1, 80);
    total_ = kv_extents_ + weights_.budget;
    draw();
  }

  void step() {
    now_ += Nanos(random_.below(millis(20).count));
    if (random_.chance(0.3)) draw();
    kv_.usable = kv_extents_ * rules_.frames_per_extent;
    const BorderDecision decision = decide_border(rules_, kv_, weights_, last_, moved_, now_);
    ASSERT_GT(decision.again.value_or(now_ + Nanos(1)), now_);
    ASSERT_GE(decision.move.extents, 0);
    if (decision.move.extents > 0) carry_out(decision.move);
  }

  std::int64_t to_kv = 0, to_weights = 0, back = 0;

 private:
  void draw() {
    kv_.in_use = random_.below(kv_extents_ * rules_.frames_per_extent + 1);
    kv_.wanted = random_.chance(0.5) ? random_.below(200) : 0;
    kv_.largest = random_.below(kv_.in_use + kv_.wanted + 1);
    weights_.used = random_.below(weights_.budget + 1);
    weights_.idle = random_.below(weights_.used + 1);
    weights_.wanted = random_.chance(0.5) ? random_.below(40) : 0;
    // Both fit together: a longer request is refused.
    const std::int64_t kv_must = std::max(
        rules_.kv_min, (kv_.largest + rules_.frames_per_extent) / rules_.frames_per_extent);
    weights_.least = random_.below(std::max<std::int64_t>(0, total_ - kv_must) + 1);
    weights_.largest = random_.below(weights_.least + 1);
    since_change_.reset();
  }

  void carry_out(const BorderMove& move) {
    const bool to_kv_side = move.to == BorderSide::kKv;
    (to_kv_side ? to_kv : to_weights) += 1;
    ASSERT_EQ(since_change_.value_or(move.to), move.to) << "back without a change of demand";
    since_change_ = move.to;
    if (last_ && last_->to != move.to) {
      ++back;
      const bool due = to_kv_side ? kv_.largest > kv_.usable || kv_extents_ < rules_.kv_min
                                  : weights_.largest > weights_.budget;
      ASSERT_TRUE(due || now_ >= moved_ + rules_.hold);
    }
    kv_extents_ += to_kv_side ? move.extents : -move.extents;
    weights_.budget += to_kv_side ? -move.extents : move.extents;
    // Idle models give way.
    if (weights_.used > weights_.budget) {
      weights_.idle = std::max<std::int64_t>(0, weights_.idle - weights_.used + weights_.budget);
      weights_.used = weights_.budget;
    }
    ASSERT_EQ(kv_extents_ + weights_.budget, total_);
    ASSERT_LE(kv_extents_, rules_.kv_max);
    if (to_kv_side) {
      ASSERT_GE(weights_.budget, weights_.least);
    } else {
      ASSERT_GE(kv_extents_, rules_.kv_min);
      ASSERT_GE(kv_extents_ * rules_.frames_per_extent, kv_.largest);
    }
    last_ = move;
    moved_ = now_;
  }

  Random random_;
  BorderRules rules_;
  KvDemand kv_;
  WeightDemand weights_;
  std::int64_t kv_extents_ = 0;
  std::int64_t total_ = 0;
  std::optional<BorderMove> last_;
  std::optional<BorderSide> since_change_;  // where memory moved since demand changed
  Nanos moved_;
  Nanos now_ = seconds(10);
};

TEST(HbmBorderHistory, KeepsMinimaAndSumsAndDoesNotSwing) {
  std::int64_t to_kv = 0, to_weights = 0, back = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomBorder history(seed);
    for (int i = 0; i < 200; ++i) {
      history.step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    to_kv += history.to_kv;
    to_weights += history.to_weights;
    back += history.back;
  }
  EXPECT_GT(to_kv, 1'000);
  EXPECT_GT(to_weights, 1'000);
  EXPECT_GT(back, 1'000);
}

}  // namespace
}  // namespace causeway::schedule::hbm_border_test
