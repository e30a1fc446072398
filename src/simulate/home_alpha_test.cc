// Steps that read weights at home with HybridGEMM's α.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "simulate/testing/small_fleet.h"

namespace causeway::simulate::home_alpha_test {
namespace {

constexpr double kWeights = 3e9;  // bytes of a model, over 400 GB/s: 7.5 ms

// Models of 3 GB, of which slices keep nothing.
FleetSimulationOptions at_home(std::int64_t slices, std::optional<double> alpha) {
  FleetSimulationOptions options = testing::make_options(static_cast<int>(slices), slices);
  options.slice.reads_at_home = true;
  options.slice.step_start = engine::StepStart::kWhenIdle;
  options.slice.alpha.emplace();
  options.slice.alpha->fixed = alpha;
  for (ModelShape& model : options.slice.models) model.max_resident = Bytes(1);
  return options;
}

Workload one(std::int64_t prompt, std::int64_t output) {
  return fixed_workload({{.count = 1, .prompt = Tokens(prompt), .output = Tokens(output)}});
}

double tpot_ms(const LatencyReport& report) {
  return static_cast<double>(report.tpot.percentile(0.5)) * 1e-6;
}

TEST(HomeAlpha, EveryStepReadsAllWeights) {
  const auto report = run(at_home(1, 0).slice, one(100, 10)).value();
  EXPECT_EQ(report.total.completed, 1);
  EXPECT_EQ(report.weights.brought, Bytes(0));
  EXPECT_NEAR(static_cast<double>(report.link_bytes.count), 10 * kWeights, 100);
  EXPECT_GE(tpot_ms(report.total), 7.5) << "no sooner than they cross";
  EXPECT_LE(tpot_ms(report.total), 9);
}

TEST(HomeAlpha, TheSymmetricWayReadsThemForEachTileOfRows) {
  // 1,200 tokens are 800 rows of such a model: four tiles.
  for (const auto& [alpha, crossings] : {std::pair{0.0, 1.0}, {0.5, 2.5}, {1.0, 4.0}}) {
    const auto report = run(at_home(1, alpha).slice, one(1200, 1)).value();
    EXPECT_EQ(report.total.completed, 1);
    EXPECT_NEAR(static_cast<double>(report.link_bytes.count), crossings * kWeights, 100) << alpha;
    EXPECT_EQ(report.device.alpha_sum, alpha * static_cast<double>(report.device.alpha_steps));
  }
}

TEST(HomeAlpha, WhatIsKeptDoesNotCrossAgain) {
  FleetSimulationOptions options = at_home(1, 0);
  options.slice.models[0].max_resident = Bytes(1'500'000'000);
  const auto report = run(options.slice, one(100, 10)).value();
  const auto kept = static_cast<double>(report.weights.brought.count);
  EXPECT_GT(kept, 0.9e9);
  EXPECT_LE(kept, 1.5e9);
  EXPECT_NEAR(static_cast<double>(report.device.home_read.count), 10 * (kWeights - kept), kWeights)
      << "and the first step what had not come";
  EXPECT_EQ(report.link_bytes, report.weights.brought + report.device.home_read);
}

TEST(HomeAlpha, SlicesShareTheLink) {
  const FixedRequests each{.count = 1, .prompt = Tokens(100), .output = Tokens(200)};
  const auto alone = testing::run_well(at_home(2, 0), fixed_workload({each, {.count = 0}}));
  const auto both = testing::run_well(at_home(2, 0), fixed_workload({each, each}));
  EXPECT_EQ(both.serving.total.completed, 2);
  EXPECT_LT(tpot_ms(alone.serving.total), 9);
  EXPECT_GT(tpot_ms(both.serving.total), 1.5 * tpot_ms(alone.serving.total));
}

TEST(HomeAlpha, ItIsTunedByWhatPromptsTakeAndNotByDecoding) {
  const auto mean = [](std::int64_t count, std::int64_t prompt, std::int64_t output) {
    const Workload workload =
        fixed_workload({{.count = count, .prompt = Tokens(prompt), .output = Tokens(output)}});
    const auto report = run(at_home(1, std::nullopt).slice, workload).value();
    EXPECT_EQ(report.total.completed, count);
    return report.device.alpha_sum / static_cast<double>(report.device.alpha_steps);
  };
  EXPECT_GT(mean(100, 3000, 1), 0.1) << "HBM carries more of its share than the link";
  EXPECT_EQ(mean(5, 20, 20), 0) << "few rows: α makes no difference";
}

TEST(HomeAlpha, TheSameInputGivesTheSameReport) {
  const Workload workload = testing::make_workload(60, 20, 2);
  const auto json = [&] { return to_json(testing::run_well(at_home(2, std::nullopt), workload)); };
  EXPECT_EQ(json(), json());
}

// A step may be shorter than any time that is known before, so slices stay together.
TEST(HomeAlpha, ASecondThreadChangesNothing) {
  const Workload workload = testing::make_workload(60, 20, 1);
  for (const std::int64_t kept : {std::int64_t{1}, std::int64_t{1'500'000'000}}) {
    FleetSimulationOptions options = at_home(1, 0);
    options.machines = 2;
    for (ModelShape& model : options.slice.models) model.max_resident = Bytes(kept);
    const auto one_thread = run_fleet(options, workload).value();
    options.two_threads = true;
    EXPECT_EQ(to_json(run_fleet(options, workload).value()), to_json(one_thread)) << kept;
  }
}

TEST(HomeAlpha, RefusesWhatMakesNoSense) {
  const auto why = [](auto change) {
    FleetSimulationOptions options = at_home(1, 0.5);
    change(options.slice);
    return run_fleet(options, one(10, 1)).error();
  };
  EXPECT_EQ(why([](auto& slice) { slice.fast_forward = true; }).code, ErrorCode::kUnsupported);
  EXPECT_EQ(why([](auto& slice) { slice.reads_at_home = false; }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(why([](auto& slice) { slice.alpha->fixed = 1.5; }).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(why([](auto& slice) { slice.profile.link_bytes_per_second = 0; }).code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::simulate::home_alpha_test
