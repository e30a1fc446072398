#include "transfer/link_map_part.h"

#include <gtest/gtest.h>

namespace causeway::transfer::link_map_part_test {
namespace {

LinkMap map_of_four() {
  LinkMap map;
  map.machine = "4x-test";
  map.links = 4;
  const LinkSet pair = LinkSet::of(1).with(3);
  map.own[index_of(Direction::kIn)] = {
      {LinkSet::of(1), 50e9}, {LinkSet::of(2), 51e9}, {pair, 90e9}, {pair.with(0), 95e9}};
  map.relayed[index_of(Direction::kIn)] = {{3, pair, 88e9}, {2, pair, 80e9}};
  map.duplex = {60e9, 61e9, 62e9, 63e9};
  map.peers = {{1, 3, 200e9}, {3, 1, 201e9}, {0, 1, 100e9}};
  return map;
}

TEST(PartOf, KeepsWhatIsAboutTheLinksInTheirOrder) {
  const LinkMap part = part_of(map_of_four(), {3, 1});
  EXPECT_EQ(part.links, 2);
  const auto& own = part.own[index_of(Direction::kIn)];
  ASSERT_EQ(own.size(), 2U);
  EXPECT_EQ(own[0].links, LinkSet::of(1));
  EXPECT_EQ(own[1].links, LinkSet::of(0).with(1));
  EXPECT_EQ(own[1].rate, 90e9);
  const auto& relayed = part.relayed[index_of(Direction::kIn)];
  ASSERT_EQ(relayed.size(), 1U);
  EXPECT_EQ(relayed[0].target, 0);
  EXPECT_EQ(part.duplex, (std::vector<double>{63e9, 61e9}));
  ASSERT_EQ(part.peers.size(), 2U);
  EXPECT_EQ(part.peers[0].source, 1);
  EXPECT_EQ(part.peers[0].target, 0);
}

TEST(RanksOf, CountsAmongAllGpusOfTheMachine) {
  const std::vector<std::string> machine = {"0000:9b:00.0", "0000:1b:00.0", "0000:5b:00.0"};
  EXPECT_EQ(ranks_of({"0000:9b:00.0", "0000:1b:00.0"}, machine), (std::vector<int>{2, 0}));
  EXPECT_FALSE(ranks_of({"0000:2b:00.0"}, machine).has_value());
  EXPECT_FALSE(ranks_of({""}, machine).has_value());
  EXPECT_FALSE(ranks_of({"0000:1b:00.0"}, {}).has_value());
}

// A map that was measured where CUDA_VISIBLE_DEVICES hides GPUs would replace the machine's.
TEST(OrderForMap, IsThatOfTheBusIdsOfAllGpus) {
  const std::vector<std::string> machine = {"0000:9b:00.0", "0000:1b:00.0", "0000:5b:00.0"};
  EXPECT_EQ(order_for_map({"0000:5b:00.0", "0000:9b:00.0", "0000:1b:00.0"}, machine).value(),
            (std::vector<std::size_t>{2, 0, 1}));
  EXPECT_EQ(order_for_map({}, {}).value(), std::vector<std::size_t>());
  const std::vector<std::vector<std::string>> parts = {{},
                                                       {"0000:1b:00.0", "0000:9b:00.0"},
                                                       {"0000:1b:00.0", "0000:1b:00.0", ""},
                                                       {"0000:1b:00.0", "0000:9b:00.0", "other"}};
  for (const auto& seen : parts) {
    const auto order = order_for_map(seen, machine);
    ASSERT_FALSE(order.ok());
    EXPECT_EQ(order.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(order.error().message.find("all 3 GPUs, and this process uses " +
                                         std::to_string(seen.size())),
              std::string::npos);
  }
}

// The process sees the second and the fourth GPU of the machine, in the other order.
TEST(PartFor, IsAboutTheVisibleGpus) {
  const std::vector<std::string> machine = {"0000:9b:00.0", "0000:1b:00.0", "0000:5b:00.0",
                                            "0000:3b:00.0"};
  LinkMap map = map_of_four();
  for (const Direction direction : kBothDirections) {
    auto& own = map.own[index_of(direction)];
    own.clear();
    for (int link = 0; link < 4; ++link) own.push_back({LinkSet::of(link), 50e9 + link});
  }
  const auto part = part_for(map, {"0000:9b:00.0", "0000:3b:00.0"}, machine);
  ASSERT_TRUE(part.ok()) << part.error().message;
  EXPECT_EQ(part->links, 2);
  EXPECT_EQ(part->own[0][0].rate, 50e9 + 1);
  EXPECT_EQ(best_set(*part, 0, Direction::kIn).links, LinkSet::first(2));
  EXPECT_EQ(best_set(*part, 1, Direction::kIn).links, LinkSet::of(1));
}

TEST(PartFor, RefusesAMapOfOtherGpus) {
  const std::vector<std::string> machine = {"0000:1b:00.0", "0000:3b:00.0"};
  EXPECT_EQ(part_for(map_of_four(), {"0000:2b:00.0"}, machine).error().code,
            ErrorCode::kUnsupported);
  LinkMap small = part_of(map_of_four(), {1});
  EXPECT_EQ(part_for(small, {"0000:3b:00.0"}, machine).error().code, ErrorCode::kInvalidArgument);
  // A link of which nothing was measured alone.
  EXPECT_EQ(part_for(map_of_four(), {"0000:1b:00.0"}, machine).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace causeway::transfer::link_map_part_test
