#include "bench/commands/switching_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace causeway::app::switching_options_test {
namespace {

Status apply(const std::vector<std::string>& line, simulate::SimulationOptions& slice) {
  CLI::App app;
  Options options(app);
  SwitchingOptions switching;
  switching.declare(options);
  app.parse(std::vector<std::string>(line));
  return switching.apply(slice);
}

TEST(SwitchingOptions, LayersJustInTimeByDefault) {
  simulate::SimulationOptions slice;
  ASSERT_TRUE(apply({}, slice).ok());
  EXPECT_EQ(slice.step_start, engine::StepStart::kJustInTime);
  EXPECT_FALSE(slice.whole_models);
  EXPECT_FALSE(slice.copies_out);
}

TEST(SwitchingOptions, SleepIsAReloadThatSavesFirst) {
  simulate::SimulationOptions slice;
  ASSERT_TRUE(apply({"--switching=reload"}, slice).ok());
  EXPECT_TRUE(slice.whole_models);
  EXPECT_FALSE(slice.copies_out);
  ASSERT_TRUE(apply({"--step-start=all-cached", "--switching=sleep"}, slice).ok());
  EXPECT_EQ(slice.step_start, engine::StepStart::kAllCached);
  EXPECT_TRUE(slice.whole_models);
  EXPECT_TRUE(slice.copies_out);
}

TEST(SwitchingOptions, EveryBaselineMayReadAtHome) {
  for (const char* switching : {"layers", "reload", "sleep"}) {
    simulate::SimulationOptions slice;
    EXPECT_FALSE(slice.reads_at_home);
    const std::string given = std::string("--switching=") + switching;
    ASSERT_TRUE(apply({"--hybrid-gemm", given}, slice).ok());
    EXPECT_TRUE(slice.reads_at_home) << switching;
    EXPECT_EQ(slice.step_start, engine::StepStart::kWhenIdle) << switching;
  }
}

TEST(SwitchingOptions, AGivenStartCounts) {
  simulate::SimulationOptions slice;
  ASSERT_TRUE(apply({"--hybrid-gemm", "--step-start=at-once"}, slice).ok());
  EXPECT_EQ(slice.step_start, engine::StepStart::kAtOnce);
  ASSERT_TRUE(apply({"--step-start=when-idle"}, slice).ok());
  EXPECT_EQ(slice.step_start, engine::StepStart::kWhenIdle);
}

TEST(SwitchingOptions, AnAlphaIsFixedOrTuned) {
  simulate::SimulationOptions slice;
  ASSERT_TRUE(apply({"--hybrid-gemm"}, slice).ok());
  EXPECT_FALSE(slice.alpha);
  ASSERT_TRUE(apply({"--hybrid-gemm", "--alpha=0.5"}, slice).ok());
  EXPECT_EQ(slice.alpha.value().fixed, 0.5);
  ASSERT_TRUE(apply({"--hybrid-gemm", "--alpha=tuned"}, slice).ok());
  EXPECT_FALSE(slice.alpha.value().fixed);
  const auto alone = apply({"--alpha=tuned"}, slice);
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("--hybrid-gemm"), std::string::npos);
  const auto wrong = apply({"--hybrid-gemm", "--alpha=2"}, slice);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("--alpha"), std::string::npos);
}

TEST(SwitchingOptions, SaysWhatIsWanted) {
  simulate::SimulationOptions slice;
  EXPECT_EQ(apply({"--hybrid-gemm", "--step-start=all-cached"}, slice).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(apply({"--step-start=soon"}, slice).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(apply({"--switching=nap"}, slice).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::app::switching_options_test
