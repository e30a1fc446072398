#include "slice/link_plan.h"

#include <gtest/gtest.h>

#include "transfer/testing/machines.h"

namespace causeway::slice::link_plan_test {
namespace {

using transfer::Direction;
using transfer::LinkSet;

bool always(int /*source*/, int /*target*/) { return true; }

TEST(LinkPlan, TheOwnLinkAloneNeedsNoOtherGpu) {
  const LinkPlan plan = plan_links(
      {.own = 2, .gpus = 4, .choice = LinkChoice::kOwn, .map = nullptr, .passes = always});
  EXPECT_EQ(plan.gpus, std::vector<int>{2});
  EXPECT_EQ(plan.facts.links, 1);
  EXPECT_EQ(plan.in, LinkSet::of(2));
}

TEST(LinkPlan, WithoutAMapItsOwn) {
  const LinkPlan plan = plan_links(
      {.own = 0, .gpus = 4, .choice = LinkChoice::kMap, .map = nullptr, .passes = always});
  EXPECT_EQ(plan.gpus, std::vector<int>{0});
}

// The others bring bytes to the slice's GPU, which relays for none of them.
TEST(LinkPlan, AllAreForTheSlice) {
  const LinkPlan plan = plan_links(
      {.own = 1, .gpus = 3, .choice = LinkChoice::kAll, .map = nullptr, .passes = always});
  EXPECT_EQ(plan.gpus, (std::vector<int>{1, 0, 2}));
  EXPECT_EQ(plan.in, LinkSet::first(3));
  for (const Direction direction : transfer::kBothDirections) {
    const transfer::WayFacts& way = plan.facts.way(direction);
    EXPECT_EQ(way.best[0], LinkSet::first(3));
    EXPECT_EQ(way.reach[0], LinkSet::first(3));
    for (const int other : {1, 2}) {
      EXPECT_EQ(way.best[static_cast<std::size_t>(other)], LinkSet::of(other));
      EXPECT_EQ(way.reach[static_cast<std::size_t>(other)], LinkSet::of(other));
    }
  }
}

// Bytes must pass both ways: what comes goes again.
TEST(LinkPlan, AGpuThatDoesNotReachTheSlicesIsLeftOut) {
  const auto passes = [](int source, int target) { return source != 3 && target != 2; };
  const LinkPlan plan = plan_links(
      {.own = 0, .gpus = 4, .choice = LinkChoice::kAll, .map = nullptr, .passes = passes});
  EXPECT_EQ(plan.gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.in, LinkSet::first(2));
}

TEST(LinkPlan, AMapSaysWhichHelp) {
  const transfer::LinkMap map = transfer::testing::map_of(transfer::testing::eight_h200(), 8);
  const auto in = transfer::best_set(map, 5, Direction::kIn);
  const auto out = transfer::best_set(map, 5, Direction::kOut);
  const LinkPlan plan =
      plan_links({.own = 5, .gpus = 8, .choice = LinkChoice::kMap, .map = &map, .passes = always});
  ASSERT_EQ(plan.gpus.front(), 5);
  LinkSet chosen;
  for (const int gpu : plan.gpus) chosen = chosen.with(gpu);
  EXPECT_EQ(chosen, (in.links | out.links).with(5));
  EXPECT_EQ(plan.in, in.links);
  EXPECT_GT(plan.in.count(), 1);
  EXPECT_DOUBLE_EQ(plan.rate_in, in.rate);
}

}  // namespace
}  // namespace causeway::slice::link_plan_test
