#include "slice/choose_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace causeway::slice::choose_layout_test {
namespace {

constexpr SliceGpu kH100{.processors = 132,
                         .unit = 8,
                         .units = 15,
                         .flops_per_second_each = 4.3e12,
                         .bytes_per_second_each = 23e9,
                         .memory = gib(80)};
constexpr Tokens kStep(8192);

struct Asked {
  double billions = 1;
  Nanos tpot = millis(100);
  double rate = 0, prompt = 500, output = 100;
};

MeasuredDemand model(const Asked& asked) {
  return {.model = {.model = "m",
                    .flops_per_token = 2e9 * asked.billions,
                    .bytes_per_step = Bytes(static_cast<std::int64_t>(2e9 * asked.billions)),
                    .tpot = asked.tpot},
          .rate = asked.rate,
          .prompt = asked.prompt,
          .output = asked.output};
}

// A chat that wants its tokens 20 ms apart, beside prompts that take 116 ms each.
const std::vector<MeasuredDemand> kBeside = {
    model({.billions = 1, .tpot = millis(20), .rate = 4, .prompt = 200, .output = 200}),
    model({.billions = 4, .tpot = millis(200), .rate = 2, .prompt = 8000, .output = 20})};
// One model that needs more than half of the GPU.
const std::vector<MeasuredDemand> kOne = {
    model({.billions = 1, .tpot = millis(20)}),
    model({.billions = 4, .tpot = millis(200), .rate = 8, .prompt = 8000, .output = 20})};

TEST(ChooseLayout, TwoPartsKeepTokensInTimeBesidePrompts) {
  EXPECT_LT(share_in_time(kH100, 1, kBeside, kStep), 0.85);
  EXPECT_GT(share_in_time(kH100, 2, kBeside, kStep), 0.95);
}

TEST(ChooseLayout, OneModelNeedsTheWholeGpu) {
  EXPECT_GT(share_in_time(kH100, 1, kOne, kStep), 0.95);
  EXPECT_LT(share_in_time(kH100, 2, kOne, kStep), 0.7);
}

// A step of 8 ms on the whole GPU: 9 on a half that reads alone, 16 while the other half reads too.
TEST(ChooseLayout, AHalfReadsMoreThanHalfWhileTheOtherIsIdle) {
  const MeasuredDemand one =
      model({.billions = 12, .tpot = millis(12), .rate = 10, .prompt = 10, .output = 100});
  EXPECT_GT(share_in_time(kH100, 2, std::vector{one}, kStep), 0.9);
  EXPECT_LT(share_in_time(kH100, 2, std::vector{one, one}, kStep), 0.5);
}

TEST(ChooseLayout, NothingIsInTimeWhereWeightsDoNotFit) {
  const std::vector large = {model({.billions = 20, .rate = 1})};
  EXPECT_EQ(share_in_time(kH100, 2, large, kStep), 0);
  EXPECT_EQ(share_in_time(kH100, 1, {}, kStep), 1);
}

class Chooser {
 public:
  explicit Chooser(int parts) { state_.parts = parts; }
  // When a change is due, in seconds, of a demand from `from` up to `until`; -1: never.
  int due(const std::vector<MeasuredDemand>& demand, int from, int until) {
    for (int at = from; at < until; ++at) {
      const auto parts = choose_layout(state_, gpu_, demand, kStep, {}, seconds(at));
      if (!parts) continue;
      state_.parts = *parts;
      state_.changed = seconds(at);
      return at;
    }
    return -1;
  }
  LayoutState state_;
  SliceGpu gpu_ = kH100;
};

TEST(ChooseLayout, ChangesWhenABetterOneLasts) {
  Chooser chooser(1);
  EXPECT_EQ(chooser.due(kBeside, 100, 200), 110);
  EXPECT_EQ(chooser.state_.parts, 2);
  EXPECT_EQ(chooser.due(kBeside, 111, 200), -1) << "it is well now";
}

TEST(ChooseLayout, ABurstChangesNothing) {
  Chooser chooser(2);
  for (int at = 100; at < 200; at += 16) {
    EXPECT_EQ(chooser.due(kOne, at, at + 8), -1);
    EXPECT_EQ(chooser.due(kBeside, at + 8, at + 16), -1);
  }
}

TEST(ChooseLayout, ChangesAreApart) {
  Chooser chooser(1);
  ASSERT_EQ(chooser.due(kBeside, 100, 200), 110);
  EXPECT_EQ(chooser.due(kOne, 111, 300), 170);
  EXPECT_EQ(chooser.state_.parts, 1);
}

TEST(ChooseLayout, StaysWhereTheGpuIsNotKnownOrNotDivisible) {
  Chooser chooser(1);
  chooser.gpu_.flops_per_second_each = 0;
  EXPECT_EQ(chooser.due(kBeside, 100, 200), -1);
  chooser.gpu_ = kH100;
  chooser.gpu_.units = 0;
  EXPECT_EQ(chooser.due(kBeside, 200, 300), -1);
}

TEST(ChooseLayout, PartsDivideTheGpu) {
  const auto halves = parts_of(kH100, 1, 2);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0].processors, 56);
  EXPECT_EQ(halves[0].gpu, 1);
  EXPECT_EQ(halves[0].share, 0.5);
  EXPECT_FALSE(halves[0].whole);
  EXPECT_TRUE(parts_of(kH100, 0, 1).front().whole);
}

}  // namespace
}  // namespace causeway::slice::choose_layout_test
