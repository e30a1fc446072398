#include "slice/choose_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace causeway::slice::choose_slices_test {
namespace {

using ::testing::HasSubstr;

constexpr SliceGpu kH100{.processors = 132,
                         .unit = 8,
                         .units = 15,
                         .flops_per_second_each = 4.3e12,
                         .bytes_per_second_each = 23e9,
                         .memory = gib(80)};
const SliceFacts kFacts{.gpus = {kH100, kH100}};

SliceDemand model(const char* name, double billions, Nanos tpot) {
  return {.model = name,
          .flops_per_token = 2e9 * billions,
          .bytes_per_step = Bytes(static_cast<std::int64_t>(2e9 * billions)),
          .tpot = tpot};
}

TEST(ChooseSlices, WholeWhereEveryModelKeepsItsTargets) {
  // 2,048 tokens of 8 billion parameters are 58 ms, a token of the other 5 ms.
  const std::vector models = {model("a", 8, millis(100)), model("b", 8, millis(100))};
  EXPECT_EQ(choose_slices(kFacts, models, Tokens(2048)).text, "all");
}

TEST(ChooseSlices, TwoWhereOnesPromptsBreakAnothersTarget) {
  const std::vector models = {model("a", 8, millis(100)), model("b", 8, millis(60))};
  const ChosenSlices chosen = choose_slices(kFacts, models, Tokens(2048));
  EXPECT_EQ(chosen.text, "2x56");
  EXPECT_THAT(chosen.why, HasSubstr("b's tokens would come 63 ms apart beside prompts of a"));
  EXPECT_TRUE(parse_slices(chosen.text, kFacts).ok());
}

TEST(ChooseSlices, AModelsOwnPromptsDoNotCount) {
  // Only what is small runs beside b, and b's prompts do not hurt a, which has time.
  const std::vector models = {model("a", 0.5, seconds(1)), model("b", 8, millis(60))};
  EXPECT_EQ(choose_slices(kFacts, models, Tokens(2048)).text, "all");
  const std::vector one = {model("b", 8, millis(1))};
  EXPECT_EQ(choose_slices(kFacts, one, Tokens(2048)).text, "all");
}

TEST(ChooseSlices, WholeWhereAHalfWouldNotHelp) {
  // Too slow for its target there as well.
  const std::vector slow = {model("a", 8, millis(100)), model("b", 8, millis(8))};
  EXPECT_EQ(choose_slices(kFacts, slow, Tokens(2048)).text, "all");
  // 40 GB of weights in a half of 80.
  const std::vector large = {model("a", 20, millis(50)), model("b", 1, millis(50))};
  EXPECT_THAT(choose_slices(kFacts, large, Tokens(2048)).why, HasSubstr("a would not fit"));
}

TEST(ChooseSlices, WholeWhereTheMachineIsNotKnownOrNotDivisible) {
  const std::vector models = {model("a", 8, millis(20)), model("b", 8, millis(20))};
  EXPECT_EQ(choose_slices(kFacts, models, Tokens(2048)).text, "2x56");
  SliceFacts facts = kFacts;
  facts.gpus[0].units = 0;
  EXPECT_EQ(choose_slices(facts, models, Tokens(2048)).text, "all");
  facts = {.gpus = {{.processors = 8, .unit = 1, .units = 8}}, .threads = true};
  EXPECT_EQ(choose_slices(facts, models, Tokens(2048)).text, "all");
}

}  // namespace
}  // namespace causeway::slice::choose_slices_test
