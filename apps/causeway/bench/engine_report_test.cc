#include "bench/engine_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace causeway::bench::engine_report_test {
namespace {

constexpr DeviceLimits kLimits{.read_bytes_per_second = 1e9, .operations_per_second = 1e12};

StepRecord make_step(std::int64_t sequences, std::int64_t tokens, std::int64_t on_device_ms,
                     std::int64_t returned_ms) {
  StepRecord step;
  step.work.read = Bytes(1'000'000);  // a millisecond
  step.work.sequences = sequences;
  step.work.tokens = tokens;
  step.work.decode_only = sequences == tokens;
  step.on_device = millis(on_device_ms);
  step.returned = millis(returned_ms);
  return step;
}

TEST(EngineReport, ARunIsHeldAgainstTheSumOfItsFloors) {
  const RunReport run = report_run(
      {make_step(4, 100, 2, 2), make_step(4, 4, 3, 5), make_step(3, 3, 3, 9)}, kLimits, millis(10));
  EXPECT_EQ(run.floor, millis(3));
  EXPECT_EQ(run.decode_floor, millis(2));
  EXPECT_EQ(run.decode_steps, 2);
  EXPECT_EQ(run.decode_on_device, millis(6));
  EXPECT_DOUBLE_EQ(run.ratio(), 10.0 / 3);
  EXPECT_NEAR(run.idle(), 0.2, 1e-12);
  ASSERT_GE(run.bands.size(), 3u);
  EXPECT_EQ(run.bands[0].steps, 1);  // with prompts
  EXPECT_EQ(run.bands[0].on_device, millis(2));
  EXPECT_EQ(run.bands[1].steps, 0);  // one sequence
  EXPECT_EQ(run.bands[2].steps, 2);
  EXPECT_EQ(run.bands[2].floor, millis(2));
}

TEST(EngineReport, ADecodeStepLastsFromOneResultToTheNext) {
  // The first follows a prompt, and the last has fewer sequences.
  const DecodeReport decode =
      report_decode({make_step(4, 100, 9, 9), make_step(4, 4, 2, 12), make_step(4, 4, 3, 16),
                     make_step(4, 4, 4, 20), make_step(3, 3, 3, 23)},
                    4, kLimits);
  EXPECT_EQ(decode.steps, 2);
  EXPECT_EQ(decode.in_engine, millis(4));
  EXPECT_EQ(decode.on_device, Nanos(3'500'000));
  EXPECT_EQ(decode.floor, millis(1));
  EXPECT_NEAR(decode.not_overlapped(), 0.125, 1e-12);
}

TEST(EngineReport, WithoutStepsThereIsNothingToDivideBy) {
  EXPECT_EQ(report_decode({}, 4, kLimits).steps, 0);
}

TEST(EngineReport, JsonHasWhatTheTableHas) {
  EngineReport report;
  report.limits = kLimits;
  report.runs.push_back(report_run({make_step(1, 1, 1, 1)}, kLimits, millis(2)));
  const auto json = report_json(report);
  EXPECT_NEAR(json["runs"][0]["ratio"].get<double>(), 2.0, 1e-12);
  EXPECT_NEAR(json["runs"][0]["idle_share"].get<double>(), 0.5, 1e-12);
  EXPECT_TRUE(json["decode"].empty());
}

}  // namespace
}  // namespace causeway::bench::engine_report_test
