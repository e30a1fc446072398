#include "schedule/urgency_heaps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"

namespace causeway::schedule::urgency_heaps_test {
namespace {

Ranked member(std::int32_t index, double slope, Nanos onset, std::int32_t tier = 0) {
  return {.standing = {.slope = slope, .onset = onset, .tier = tier},
          .arrival = Nanos(index),
          .id = index,
          .index = index};
}

TEST(Standing, LagsNotBeforeItsOnset) {
  const Standing standing{.slope = 3, .onset = seconds(2)};
  EXPECT_EQ(standing.lag(seconds(1)), 0.0);
  EXPECT_EQ(standing.lag(seconds(2)), 0.0);
  EXPECT_DOUBLE_EQ(standing.lag(seconds(4)), 6.0);
}

TEST(UrgencyHeaps, ASteeperLagOvertakesAnEarlierOne) {
  HeapPositions positions;
  UrgencyHeaps heaps;
  EXPECT_EQ(heaps.leader(Nanos(0)), nullptr);
  heaps.push(positions, member(0, 1, seconds(0)));
  heaps.push(positions, member(1, 3, seconds(4)));
  EXPECT_EQ(heaps.leader(seconds(5))->index, 0);  // 5 against 3
  EXPECT_EQ(heaps.leader(seconds(6))->index, 0);  // 6 each: the earlier onset
  EXPECT_EQ(heaps.leader(seconds(7))->index, 1);  // 7 against 9
}

TEST(UrgencyHeaps, WhoIsNotDueYetGoesByOnset) {
  HeapPositions positions;
  UrgencyHeaps heaps;
  heaps.push(positions, member(0, 1, seconds(9)));
  heaps.push(positions, member(1, 3, seconds(8)));
  EXPECT_EQ(heaps.leader(seconds(1))->index, 1);
}

TEST(UrgencyHeaps, AHigherTierLeadsWhateverTheLags) {
  HeapPositions positions;
  UrgencyHeaps heaps;
  heaps.push(positions, member(0, 1, seconds(0)));
  heaps.push(positions, member(1, 1, seconds(99), 1));
  EXPECT_EQ(heaps.leader(seconds(5))->index, 1);
}

TEST(UrgencyHeaps, GivesAnEmptyHeapToAnotherSlope) {
  HeapPositions positions;
  UrgencyHeaps heaps;
  for (int slope = 1; slope < 100; ++slope) {
    heaps.push(positions, member(0, slope, seconds(0)));
    EXPECT_TRUE(heaps.ordered(positions));
    heaps.erase(positions, 0);
  }
  EXPECT_TRUE(heaps.empty());
}

// Random changes; at random times the leader is the one that a look at all members finds.
TEST(UrgencyHeaps, LeaderIsThatOfALookAtEverybody) {
  Random random(7);
  HeapPositions positions;
  UrgencyHeaps heaps;
  std::map<std::int32_t, Ranked> model;
  for (int change = 0; change < 20'000; ++change) {
    const auto index = static_cast<std::int32_t>(random.below(200));
    if (model.erase(index) > 0) {
      heaps.erase(positions, index);
    } else {
      Ranked one = member(index, static_cast<double>(random.below(16)) / 2,
                          millis(random.below(50)), static_cast<std::int32_t>(random.below(2)));
      one.arrival = Nanos(random.below(5));
      heaps.push(positions, one);
      model.emplace(index, one);
    }
    const Nanos now = millis(random.below(80));
    const Ranked* best = nullptr;
    for (const auto& [i, one] : model) {
      if (best == nullptr || leads(one, *best, now)) best = &one;
    }
    const Ranked* leader = heaps.leader(now);
    ASSERT_EQ(leader == nullptr, best == nullptr);
    if (best != nullptr) {
      ASSERT_EQ(leader->index, best->index) << "change " << change;
    }
    if (change % 100 == 0) {
      ASSERT_TRUE(heaps.ordered(positions));
    }
  }
  EXPECT_EQ(heaps.size(), std::ssize(model));
}

// Popping leaders is sorting by lag.
TEST(UrgencyHeaps, PoppingLeadersSortsByLag) {
  Random random(11);
  HeapPositions positions;
  UrgencyHeaps heaps;
  std::vector<Ranked> all;
  for (std::int32_t i = 0; i < 1'000; ++i) {
    all.push_back(member(i, 1 + static_cast<double>(random.below(16)), millis(random.below(500))));
    heaps.push(positions, all.back());
  }
  const Nanos now = millis(400);
  std::sort(all.begin(), all.end(),
            [&](const Ranked& a, const Ranked& b) { return leads(a, b, now); });
  for (const Ranked& expected : all) {
    ASSERT_EQ(heaps.leader(now)->index, expected.index);
    heaps.erase(positions, expected.index);
  }
  EXPECT_TRUE(heaps.empty());
}

}  // namespace
}  // namespace causeway::schedule::urgency_heaps_test
