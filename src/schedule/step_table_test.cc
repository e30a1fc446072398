#include "schedule/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace causeway::schedule::step_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A millisecond for each token of prompts; a hundred more beside ten that decode.
StepTable plain(Tokens most) {
  StepTable table{.decodes = 10};
  for (const Tokens tokens : table_sizes(most)) {
    const double alone = static_cast<double>(tokens.count) * 1e-3;
    table.times.push_back({.tokens = tokens, .alone = alone, .beside = alone + 0.1});
  }
  return table;
}

std::string wrong_with(const StepTable& table) {
  const Status status = check_table(table);
  return status.ok() ? "" : status.error().message;
}

TEST(StepTable, HasTheSizesOfTheController) {
  EXPECT_THAT(chunk_sizes(Tokens(64), Tokens(256)),
              ElementsAre(Tokens(64), Tokens(96), Tokens(128), Tokens(192), Tokens(256)));
  EXPECT_THAT(chunk_sizes(Tokens(64), Tokens(200)),
              ElementsAre(Tokens(64), Tokens(96), Tokens(128), Tokens(192), Tokens(200)));
  EXPECT_THAT(chunk_sizes(Tokens(1), Tokens(4)),
              ElementsAre(Tokens(1), Tokens(2), Tokens(3), Tokens(4)));
  EXPECT_THAT(table_sizes(Tokens(96)), ElementsAre(Tokens(1), Tokens(64), Tokens(96)));
  EXPECT_THAT(table_sizes(Tokens(1)), ElementsAre(Tokens(1)));
  EXPECT_THAT(table_sizes(Tokens(20)), ElementsAre(Tokens(1), Tokens(20)));
}

TEST(StepTable, IsALineBetweenSizesAndInProportionBeyond) {
  const StepTable table = plain(Tokens(256));
  for (const std::int64_t tokens : {1, 2, 64, 65, 100, 255, 256, 257, 5000}) {
    EXPECT_NEAR(to_millis(table.of({.prompt = Tokens(tokens)})), static_cast<double>(tokens), 1e-4);
  }
  EXPECT_EQ(table.of({}), millis(1)) << "a step has a token";
}

TEST(StepTable, EachThatDecodesAddsItsPartOfWhatTheyTakeTogether) {
  const StepTable table = plain(Tokens(256));
  const auto beside = [&](std::int64_t prompt, std::int64_t decodes) {
    return to_millis(table.of({.prompt = Tokens(prompt), .decodes = Tokens(decodes)}));
  };
  EXPECT_NEAR(beside(100, 10), 200, 1e-4);
  EXPECT_NEAR(beside(100, 5), 150, 1e-4);
  EXPECT_NEAR(beside(100, 30), 400, 1e-4);
  EXPECT_NEAR(beside(0, 10), 101, 1e-4);
  EXPECT_NEAR(beside(512, 10), 512 + 200, 1e-4) << "in proportion, too";
}

TEST(StepTable, NeverTakesNoTimeNorMoreThanADay) {
  const StepTable table{.decodes = 1, .times = {{Tokens(1), 1e-9, 86'400}}};
  EXPECT_EQ(table.of({.prompt = Tokens(1)}), Nanos(1));
  EXPECT_EQ(table.of({.prompt = Tokens(std::int64_t{1} << 40), .decodes = Tokens(1 << 20)}),
            seconds(86'400));
}

TEST(StepTable, NoiseDoesNotMakeALargerStepCheaper) {
  StepTable table = plain(Tokens(96));
  table.times[1].alone = 0.2;   // more than that of 96 tokens
  table.times[2].beside = 0.1;  // less than alone
  table = rising(std::move(table));
  EXPECT_NEAR(to_millis(table.of({.prompt = Tokens(96)})), 200, 1e-4);
  EXPECT_NEAR(to_millis(table.of({.prompt = Tokens(96), .decodes = Tokens(10)})), 200, 1e-4);
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    StepTable noisy = plain(Tokens(4096));
    for (StepTime& time : noisy.times) {
      time.alone *= random.uniform() + 0.1;
      time.beside *= random.uniform() + 0.1;
    }
    noisy = rising(std::move(noisy));
    Nanos before;
    for (std::int64_t tokens = 1; tokens < 6000; tokens += 1 + tokens / 9) {
      const Nanos alone = noisy.of({.prompt = Tokens(tokens)});
      EXPECT_GE(alone + Nanos(1), before);
      EXPECT_GE(noisy.of({.prompt = Tokens(tokens), .decodes = Tokens(3)}) + Nanos(1), alone);
      before = alone;
    }
  }
}

TEST(StepTable, WhatIsWrongIsNamed) {
  EXPECT_EQ(wrong_with(plain(Tokens(200))), "");
  EXPECT_EQ(wrong_with(plain(Tokens(1))), "");
  StepTable table = plain(Tokens(200));
  table.decodes = 0;
  EXPECT_THAT(wrong_with(table), HasSubstr("decodes"));
  EXPECT_THAT(wrong_with({.decodes = 1}), HasSubstr("steps"));
  for (std::size_t lacking = 0; lacking + 1 < plain(Tokens(200)).times.size(); ++lacking) {
    table = plain(Tokens(200));
    table.times.erase(table.times.begin() + static_cast<std::ptrdiff_t>(lacking));
    EXPECT_THAT(wrong_with(table), HasSubstr("steps[" + std::to_string(lacking) + "]"));
  }
  table = plain(Tokens(200));
  table.times.insert(table.times.begin() + 2, table.times[2]);
  EXPECT_THAT(wrong_with(table), HasSubstr("steps[3]"));
  std::swap(table.times.front(), table.times.back());
  EXPECT_NE(wrong_with(table), "");
  for (const std::int64_t tokens : {std::int64_t{0}, std::int64_t{-5}, std::int64_t{1} << 21}) {
    table = plain(Tokens(200));
    table.times.back().tokens = Tokens(tokens);
    EXPECT_THAT(wrong_with(table), HasSubstr("tokens"));
  }
  for (const double seconds : {0.0, -1.0, 1e-10, 90'000.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    table = plain(Tokens(200));
    table.times[3].alone = seconds;
    EXPECT_THAT(wrong_with(table), HasSubstr("steps[3].ttft_ms"));
    table = plain(Tokens(200));
    table.times[1].beside = seconds;
    EXPECT_THAT(wrong_with(table), HasSubstr("steps[1].tpot_ms"));
  }
}

TEST(ChunkProfile, FindsATableByShapeAndSlice) {
  ChunkProfile profile;
  profile.tables = {{.shape = "a", .processors = 56, .table = plain(Tokens(1))},
                    {.shape = "a", .processors = 132, .table = plain(Tokens(64))},
                    {.shape = "b", .processors = 132, .table = plain(Tokens(96))}};
  EXPECT_EQ(profile.find("a", 56), &profile.tables[0].table);
  EXPECT_EQ(profile.find("b", 132), &profile.tables[2].table);
  EXPECT_EQ(profile.find("b", 56), nullptr);
  EXPECT_EQ(profile.find("c", 132), nullptr);
  EXPECT_EQ(profile.find_largest("a"), &profile.tables[1].table);
  EXPECT_EQ(profile.find_largest("c"), nullptr);
}

}  // namespace
}  // namespace causeway::schedule::step_table_test
