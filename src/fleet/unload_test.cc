#include "fleet/unload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace causeway::fleet::unload_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

UnloadCandidate candidate(std::int64_t model, std::int64_t bytes, double rate,
                          std::int64_t last_used = 0) {
  const double cost = log_cost(Bytes(bytes), std::log(rate));
  return {ModelId(model), Bytes(bytes), cost, seconds(last_used)};
}

TEST(Unload, TheCheapestToBringBackGoFirst) {
  // Costs: 200, 300, 90.
  const auto choice =
      choose_unloads({candidate(0, 100, 2), candidate(1, 30, 10), candidate(2, 90, 1)}, Bytes(150));
  EXPECT_THAT(choice.models, ElementsAre(ModelId(2), ModelId(0)));
  EXPECT_EQ(choice.freed, Bytes(190));
}

TEST(Unload, AmongTheUnaskedTheLongestUnusedGoesFirst) {
  const auto choice = choose_unloads(
      {candidate(0, 10, 0, 30), candidate(1, 50, 0, 10), candidate(2, 10, 0, 20)}, Bytes(55));
  EXPECT_THAT(choice.models, ElementsAre(ModelId(1), ModelId(2)));
}

TEST(Unload, NoneGoesThatTheOthersCanDoWithout) {
  const auto choice = choose_unloads(
      {candidate(0, 10, 0), candidate(1, 10, 0.1), candidate(2, 100, 1)}, Bytes(100));
  EXPECT_THAT(choice.models, ElementsAre(ModelId(2)));
  EXPECT_EQ(choice.freed, Bytes(100));
}

TEST(Unload, NotEnoughInAllLeavesEverythingAndSaysHowMuchThereIs) {
  const auto choice = choose_unloads({candidate(0, 10, 0), candidate(1, 10, 0)}, Bytes(21));
  EXPECT_THAT(choice.models, IsEmpty());
  EXPECT_EQ(choice.freed, Bytes(20));
}

TEST(Unload, EveryChoiceFreesEnoughAndNothingInVain) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<UnloadCandidate> candidates;
    std::vector<Bytes> bytes;
    Bytes all;
    for (std::uint64_t i = 0, count = random.below(8); i < count; ++i) {
      bytes.emplace_back(static_cast<std::int64_t>(1 + random.below(100)));
      all += bytes.back();
      candidates.push_back(candidate(static_cast<std::int64_t>(i), bytes.back().count,
                                     random.chance(0.3) ? 0 : random.uniform(),
                                     static_cast<std::int64_t>(random.below(5))));
    }
    const Bytes wanted(static_cast<std::int64_t>(1 + random.below(300)));
    const auto choice = choose_unloads(candidates, wanted);
    ASSERT_EQ(choice.models.empty(), all < wanted) << "round " << round;
    if (choice.models.empty()) continue;
    Bytes freed;
    for (const ModelId model : choice.models) freed += bytes[static_cast<std::size_t>(model.value)];
    ASSERT_EQ(freed, choice.freed) << "round " << round;
    ASSERT_GE(freed, wanted) << "round " << round;
    for (const ModelId model : choice.models) {
      ASSERT_LT(freed - bytes[static_cast<std::size_t>(model.value)], wanted) << "round " << round;
    }
  }
}

TEST(Unload, RatesDecay) {
  DecayedCount often, once;
  for (int i = 0; i < 10; ++i) often.add(seconds(1));
  once.add(seconds(300));
  EXPECT_DOUBLE_EQ(often.at(seconds(1)), 10);
  EXPECT_LT(often.at(seconds(300)), once.at(seconds(300)));
  EXPECT_EQ(often.last(), seconds(1));
  often.add(Nanos(0));  // an arrival that was overtaken
  EXPECT_DOUBLE_EQ(often.at(seconds(1)), 11);
  EXPECT_EQ(DecayedCount().at(seconds(5)), 0);
}

}  // namespace
}  // namespace causeway::fleet::unload_test
