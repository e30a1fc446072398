#include "bench/slo_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/step_recorder.h"

namespace causeway::bench::slo_report_test {
namespace {

constexpr request::Slo kSlo{.ttft = millis(100), .tpot = millis(10)};

SloRequest served(std::int64_t due, const std::vector<std::int64_t>& at) {
  SloRequest request{.due = millis(due), .prompt = 5, .times = {.ended = true}};
  for (const std::int64_t time : at) request.times.at.push_back(millis(time));
  return request;
}

TEST(SloReport, CountsWhoKeepsWhichTarget) {
  std::vector<SloRequest> requests;
  requests.push_back(served(0, {100, 110, 120}));  // both, just
  requests.push_back(served(10, {111, 112}));      // late by 1 ms
  requests.push_back(served(20, {30, 35, 51}));    // 10.5 ms between tokens in the mean
  requests.push_back(served(30, {40}));            // one token has no gaps
  requests.push_back({.due = millis(40), .prompt = 5, .times = {}});  // never ended
  requests.push_back(served(50, {60, 61}));
  requests.back().times.error = "lost";
  const SloRow row = report_slo(requests, kSlo, {}, {});
  EXPECT_EQ(row.requests, 6);
  EXPECT_EQ(row.failed, 2);
  EXPECT_EQ(row.first_error, "it did not end");
  EXPECT_EQ(row.ttft_met, 3);
  EXPECT_EQ(row.tpot_met, 3);
  EXPECT_EQ(row.both_met, 2);
  EXPECT_EQ(row.ttft.count(), 4);
  EXPECT_EQ(row.tpot.count(), 3);
  EXPECT_EQ(row.gap.count(), 5);
  EXPECT_EQ(row.output_tokens, 11);
  EXPECT_DOUBLE_EQ(row.seconds, 0.12);
  EXPECT_DOUBLE_EQ(row.share(row.both_met), 2.0 / 6);
}

TEST(SloReport, TakesWhatTheEngineDidMeanwhile) {
  const std::vector<SloRequest> requests{served(0, {1}), served(1, {2})};
  request::Observation before, after;
  before.prompt_tokens = 100;
  after.prompt_tokens = 117;  // of prompts that have 10
  before.rotations = 2;
  after.rotations = 7;
  after.preemptions = 1;
  after.kv_copies.rotation_in = 4;
  const SloRow row = report_slo(requests, kSlo, before, after);
  EXPECT_EQ(row.recomputed, 7);
  EXPECT_EQ(row.rotations, 5);
  EXPECT_EQ(row.preemptions, 1);
  EXPECT_EQ(row.copies.rotation_in, 4);
}

TEST(SloReport, JsonHasSharesOfAllRequests) {
  const std::vector<SloRequest> requests{served(0, {1}), {.due = Nanos(0), .times = {}}};
  SloRow row = report_slo(requests, kSlo, {}, {});
  row.policy = "rotary";
  const auto document = slo_json({row}, kSlo);
  EXPECT_EQ(document["bench"], "slo");
  EXPECT_EQ(document["rows"][0]["policy"], "rotary");
  EXPECT_EQ(document["rows"][0]["both_attained"], 0.5);
}

TEST(SloReport, JsonHasWhatTheSimulatorExpects) {
  SloRow row;
  EXPECT_FALSE(slo_json({row}, kSlo)["rows"][0].contains("predicted"));
  row.predicted = SloPrediction{.both_attained = 0.75, .tokens_per_second = 12};
  const auto predicted = slo_json({row}, kSlo)["rows"][0]["predicted"];
  EXPECT_EQ(predicted["both_attained"], 0.75);
  EXPECT_EQ(predicted["output_tokens_per_second"], 12);
}

StepRecord step_at(std::int64_t returned, std::int64_t on_device, bool queued) {
  StepRecord step;
  step.returned = millis(returned);
  step.on_device = millis(on_device);
  step.queued = queued;
  return step;
}

TEST(StepRecords, TheHostIsWhatPassesBetweenStepsThatWereQueued) {
  EXPECT_EQ(not_overlapped({}), 0);
  // The third came after a pause in which nothing was asked.
  const std::vector<StepRecord> steps{step_at(10, 10, false), step_at(20, 9, true),
                                      step_at(90, 10, false), step_at(100, 8, true)};
  EXPECT_DOUBLE_EQ(not_overlapped(steps), 3.0 / 20);
}

TEST(SloReport, NothingAskedIsNothing) {
  const SloRow row = report_slo({}, kSlo, {}, {});
  EXPECT_EQ(row.requests, 0);
  EXPECT_EQ(row.share(0), 0);
  EXPECT_EQ(row.tokens_per_second(), 0);
}

}  // namespace
}  // namespace causeway::bench::slo_report_test
