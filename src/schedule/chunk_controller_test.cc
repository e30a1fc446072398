#include "schedule/chunk_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace causeway::schedule::chunk_controller_test {
namespace {

// Ten microseconds a token, four milliseconds at least: 400 tokens take no longer than one.
constexpr StepCost kCost{.min = millis(4), .seconds_per_token = 1e-5};
constexpr Tokens kMost(8192);

ChunkController controller(const ChunkOptions& options = {}) {
  return ChunkController(options, kCost, kMost);
}

PromptDue due(std::int64_t tokens, Nanos aim) {
  return {.left = Tokens(tokens), .aim = aim, .due = aim + aim};
}

// Decoding sequences have no targets.
ChunkView view_of(const std::vector<PromptDue>& prompts, Nanos until = seconds(3600)) {
  ChunkView view;
  view.begins = seconds(1);
  view.decodes = Tokens(16);
  view.prompts = prompts;
  view.even_until = until;
  view.mean_until = until;
  return view;
}

TEST(ChunkController, TakesTheSmallestChunkWithWhichAPromptIsInTime) {
  const ChunkController chunks = controller({.efficiency_min = 0});
  const auto chunk = [&](Nanos aim) {
    const std::vector<PromptDue> prompts = {due(4000, seconds(1) + aim)};
    return chunks.choose(view_of(prompts));
  };
  // 63 steps of 4 ms, 32 of 4 ms, 8 of 5.28 ms.
  EXPECT_EQ(chunk(millis(300)), Tokens(64));
  EXPECT_EQ(chunk(millis(150)), Tokens(128));
  EXPECT_EQ(chunk(millis(43)), Tokens(512));
  Tokens last(0);
  for (const std::int64_t aim : {1000, 300, 100, 60, 50, 42, 41}) {
    EXPECT_GE(chunk(millis(aim)), last) << "the tighter the target, the larger the chunk";
    last = chunk(millis(aim));
  }
}

TEST(ChunkController, IsTheLargestWhereNobodyDecodes) {
  const ChunkController chunks = controller({.efficiency_min = 0});
  const std::vector<PromptDue> prompts = {due(4000, seconds(2))};
  EXPECT_LT(chunks.choose(view_of(prompts)), Tokens(128));
  EXPECT_GE(chunks.choose(view_of(prompts, ChunkView::kNever)), Tokens(4000));
}

TEST(ChunkController, PromptsInFrontTakeTheTimeOfThoseBehind) {
  const ChunkController chunks = controller({.efficiency_min = 0});
  const Nanos aim = seconds(1) + millis(130);
  const std::vector<PromptDue> alone = {due(2000, aim)};
  const std::vector<PromptDue> behind = {due(8000, seconds(9)), due(2000, aim)};
  EXPECT_EQ(chunks.choose(view_of(alone)), Tokens(64));
  EXPECT_GE(chunks.choose(view_of(behind)), Tokens(384));
}

TEST(ChunkController, ThoseWhoDecodeLimitTheChunk) {
  const ChunkController chunks = controller();
  const std::vector<PromptDue> prompts = {due(20'480, seconds(1) + millis(206))};
  EXPECT_EQ(chunks.choose(view_of(prompts)), Tokens(4096));
  // 30.88 ms; the next larger would take 41.12.
  EXPECT_EQ(chunks.choose(view_of(prompts, seconds(1) + millis(35))), Tokens(3072))
      << "the largest that they allow";
}

TEST(ChunkController, WhatIsAheadIsSpentOnlyForAPromptThatWouldBeLate) {
  const ChunkController chunks = controller();
  const auto chunk = [&](Nanos aim) {
    const std::vector<PromptDue> prompts = {due(8000, seconds(1) + aim)};
    ChunkView view = view_of(prompts);
    view.even_until = seconds(1) + millis(20);
    view.mean_until = seconds(1) + millis(200);
    return chunks.choose(view);
  };
  EXPECT_LE(kCost.of(chunk(seconds(2)) + Tokens(16)), millis(20));
  EXPECT_GT(kCost.of(chunk(millis(81)) + Tokens(16)), millis(20));
}

TEST(ChunkController, APromptThatIsLateAnywayDoesNotCount) {
  const ChunkController chunks = controller({.efficiency_min = 0});
  const std::vector<PromptDue> prompts = {{.left = Tokens(1000), .aim = Nanos(0), .due = Nanos(1)},
                                          due(1000, seconds(2))};
  EXPECT_EQ(chunks.choose(view_of(prompts)), Tokens(64));
  const std::vector<PromptDue> hopeless = {prompts.front()};
  EXPECT_EQ(chunks.choose(view_of(hopeless, seconds(1) + millis(8))), Tokens(768))
      << "what is late comes as soon as those who decode allow";
}

TEST(ChunkController, SmallChunksThatWasteTheDeviceAreNotTaken) {
  const std::vector<PromptDue> prompts = {due(8000, seconds(100))};
  EXPECT_EQ(controller({.efficiency_min = 0}).choose(view_of(prompts)), Tokens(64));
  // 256 tokens in 4 ms are 64,000 a second, where 100,000 can be had.
  EXPECT_EQ(controller({.efficiency_min = 0.6}).choose(view_of(prompts)), Tokens(256));
  // Gaps have precedence over that.
  const ChunkController large = controller({.efficiency_min = 0.99});
  EXPECT_EQ(large.choose(view_of(prompts, seconds(1) + millis(4))), Tokens(384));
}

TEST(ChunkController, AlwaysLeavesAPromptSomething) {
  const ChunkController chunks = controller();
  const std::vector<PromptDue> prompts = {due(4000, seconds(5))};
  EXPECT_EQ(chunks.choose(view_of(prompts, Nanos(0))), Tokens(64));
  ChunkView full = view_of(prompts);
  full.decodes = kMost;
  EXPECT_EQ(chunks.choose(full), Tokens(1));
  EXPECT_EQ(ChunkController({}, kCost, Tokens(1)).choose(view_of(prompts)), Tokens(1));
}

TEST(ChunkController, LearnsWhatStepsTake) {
  ChunkController chunks = controller();
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(1024))), 10.24, 1e-3);
  for (int i = 0; i < 20; ++i) chunks.measured(Tokens(1024), millis(20));
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(1024))), 20, 1e-3);
  // The 9.76 ms that the table lacks are known for other chunks, too.
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(4096))), 40.96 + 9.76, 1e-2);
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(64))), 4 + 9.76, 1e-2);
  // Contention counts once it is measured for that chunk, which is half as fast.
  for (int i = 0; i < 20; ++i) chunks.measured(Tokens(4096), millis(82));
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(4096))), 82, 1e-3);
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(1024))), 20, 1e-3);
}

TEST(ChunkController, ForgetsWhatWasMeasuredLongAgo) {
  ChunkController chunks = controller();
  chunks.measured(Tokens(4096), millis(200));
  for (int i = 0; i < 200; ++i) chunks.measured(Tokens(512), kCost.of(Tokens(512)));
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(4096))), 40.96, 1e-3);
}

TEST(ChunkController, OneSlowStepIsNotTheRule) {
  ChunkController chunks = controller();
  for (int i = 0; i < 20; ++i) chunks.measured(Tokens(1024), millis(11));
  chunks.measured(Tokens(1024), seconds(10));
  EXPECT_LT(chunks.predicted(Tokens(1024)), millis(20));
}

TEST(ChunkController, ContentionMakesChunksSmaller) {
  const std::vector<PromptDue> prompts = {due(20'000, seconds(1) + millis(1))};
  const ChunkView view = view_of(prompts, seconds(1) + millis(50));
  ChunkController chunks = controller();
  const Tokens alone = chunks.choose(view);
  for (int i = 0; i < 20; ++i) {
    const Tokens tokens = chunks.choose(view) + view.decodes;
    chunks.measured(tokens, kCost.of(tokens) + kCost.of(tokens));
  }
  const Tokens beside = chunks.choose(view);
  EXPECT_LE(beside.count * 3, alone.count * 2);
  EXPECT_LE(kCost.of(beside + view.decodes) + kCost.of(beside + view.decodes), millis(52));
}

// For all inputs the chunk fits the step and is the same each time; with more slack for decoding
// sequences the largest chunk never becomes smaller.
TEST(ChunkController, HoldsForAnything) {
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    const Tokens most(1 + static_cast<std::int64_t>(std::exp(9 * random.uniform())));
    const StepCost cost{.min = nanos_from_seconds(0.01 * random.uniform()),
                        .seconds_per_token = 1e-9 + 1e-4 * random.uniform()};
    ChunkController chunks({.ttft_share = 0.01 + 0.99 * random.uniform(),
                            .tpot_share = 0.5,
                            .efficiency_min = random.uniform(),
                            .least = Tokens(random.between(1, 100))},
                           cost, most);
    for (std::int64_t i = random.between(0, 40); i > 0; --i) {
      chunks.measured(Tokens(random.between(0, 2 * most.count)),
                      micros(random.between(0, 1'000'000)));
    }
    std::vector<PromptDue> prompts;
    for (std::int64_t i = random.between(0, 5); i > 0; --i) {
      prompts.push_back(due(random.between(1, 100'000), millis(random.between(0, 10'000))));
    }
    ChunkView view = view_of(prompts, millis(random.between(0, 3'000)));
    view.mean_until = millis(random.between(0, 3'000));
    view.others = millis(random.between(0, 50));
    view.decodes = Tokens(random.between(0, most.count));
    const Tokens chunk = chunks.choose(view);
    ASSERT_GE(chunk, Tokens(1));
    ASSERT_TRUE(chunk + view.decodes <= most || chunk == Tokens(1));
    ASSERT_EQ(chunk, chunks.choose(view));
    ASSERT_GE(chunks.predicted(chunk), Nanos(0));
  }
}

// Ten milliseconds to 512 tokens, a hundred beyond; beside eight that decode twice as long.
StepTable stepped() {
  StepTable table{.decodes = 8};
  for (const Tokens tokens : table_sizes(kMost)) {
    const double alone = tokens <= Tokens(512) ? 0.01 : 0.1;
    table.times.push_back({.tokens = tokens, .alone = alone, .beside = 2 * alone});
  }
  return table;
}

TEST(ChunkController, ATableDecidesWhereThereIsOne) {
  // By the two figures any chunk takes an hour.
  const StepCost cost{.min = seconds(3600), .seconds_per_token = 1, .table = stepped()};
  const ChunkController chunks({.efficiency_min = 0}, cost, kMost);
  const auto chunk = [&](Nanos aim, std::int64_t decodes) {
    const std::vector<PromptDue> prompts = {due(4000, seconds(1) + aim)};
    ChunkView view = view_of(prompts);
    view.decodes = Tokens(decodes);
    return chunks.choose(view);
  };
  // Eight steps of 10 ms; with 384 tokens it would be eleven.
  EXPECT_EQ(chunk(millis(81), 0), Tokens(512));
  EXPECT_EQ(chunk(millis(111), 0), Tokens(384));
  EXPECT_EQ(chunk(seconds(1), 0), Tokens(64));
  // Beside eight that decode each takes 20 ms, and beside four 15.
  EXPECT_EQ(chunk(millis(161), 8), Tokens(512));
  EXPECT_EQ(chunk(millis(221), 8), Tokens(384));
  EXPECT_EQ(chunk(millis(166), 4), Tokens(384));
  const std::vector<PromptDue> prompts = {due(20'000, seconds(1) + millis(1))};
  ChunkView view = view_of(prompts, seconds(1) + millis(25));
  view.decodes = Tokens(8);
  EXPECT_EQ(chunks.choose(view), Tokens(512)) << "the largest that those who decode allow";
}

TEST(ChunkController, ATableIsEnough) {
  EXPECT_TRUE(StepCost{.table = stepped()}.known());
  const ChunkController chunks({}, {.table = stepped()}, kMost);
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(100))), 10, 1e-3);
  EXPECT_NEAR(to_millis(chunks.predicted({.prompt = Tokens(100), .decodes = Tokens(8)})), 20, 1e-3);
}

TEST(ChunkController, LearnsBeyondATable) {
  ChunkController chunks({}, {.table = stepped()}, kMost);
  const StepLoad load{.prompt = Tokens(100), .decodes = Tokens(8)};
  for (int i = 0; i < 30; ++i) chunks.measured(load, millis(30));
  EXPECT_NEAR(to_millis(chunks.predicted(load)), 30, 0.01);
  // In another class what the table lacks does not grow with the number of tokens.
  EXPECT_NEAR(to_millis(chunks.predicted(Tokens(8192))), 100 + 5, 0.01);
}

TEST(ChunkOptions, ATableOfTheProfileIsChecked) {
  ChunkOptions options;
  options.profile.tables = {{.shape = "a", .processors = 1, .table = stepped()},
                            {.shape = "b", .processors = 1, .table = stepped()}};
  EXPECT_TRUE(check_chunk(options).ok());
  options.profile.tables[1].table.times[2].alone = -1;
  const Status checked = check_chunk(options);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().message.rfind("tables[1]: steps[2].ttft_ms", 0), 0u)
      << checked.error().message;
}

TEST(ChunkOptions, AreChecked) {
  EXPECT_TRUE(check_chunk({}).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {0.0, -0.1, 1.1, nan}) {
    EXPECT_FALSE(check_chunk({.ttft_share = bad}).ok()) << bad;
    EXPECT_FALSE(check_chunk({.tpot_share = bad}).ok()) << bad;
  }
  EXPECT_FALSE(check_chunk({.least = Tokens(0)}).ok());
  for (const double bad : {-0.1, 1.1, nan}) {
    EXPECT_FALSE(check_chunk({.efficiency_min = bad}).ok()) << bad;
  }
}

TEST(StepCost, IsTheLongerOfTwo) {
  EXPECT_EQ(kCost.of(Tokens(1)), millis(4));
  EXPECT_EQ(kCost.of(Tokens(1000)), millis(10));
  EXPECT_FALSE(StepCost().known());
  EXPECT_FALSE(StepCost{.min = millis(1)}.known());
}

}  // namespace
}  // namespace causeway::schedule::chunk_controller_test
