#include "client/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace causeway::bench::report_test {
namespace {

LoadRecord record(const std::string& model, Nanos scheduled, std::vector<Nanos> token_times) {
  LoadRecord record;
  record.model = model;
  record.scheduled = scheduled;
  record.outcome.completion_tokens = static_cast<std::int64_t>(token_times.size());
  record.outcome.ended = token_times.empty() ? scheduled : token_times.back();
  record.outcome.token_times = std::move(token_times);
  return record;
}

TEST(Report, LatenciesCountFromTheScheduledArrival) {
  const auto report =
      make_report({record("a", seconds(1), {millis(1200), millis(1300), millis(1500)})},
                  {.ttft = millis(250), .tpot = millis(160)});
  EXPECT_NEAR(report.all.ttft_ms.p50, 200, 2);
  EXPECT_NEAR(report.all.tpot_ms.p50, 150, 2);
  EXPECT_NEAR(report.all.e2e_ms.p99, 500, 5);
  EXPECT_EQ(report.all.slo_attained, 1.0);
  EXPECT_EQ(report.duration, millis(500));
}

TEST(Report, TimePerTokenCountsTokensNotEvents) {
  LoadRecord doubled = record("a", seconds(1), {millis(1200), millis(1300), millis(1600)});
  doubled.outcome.completion_tokens = 5;
  const auto report = make_report({doubled}, {.ttft = millis(250), .tpot = millis(110)});
  EXPECT_NEAR(report.all.tpot_ms.p50, 100, 2);
  EXPECT_NEAR(report.all.itl_ms.mean, 200, 2);
  EXPECT_EQ(report.all.tpot_attained, 1.0);
}

TEST(Report, SloCountsFailuresAndMisses) {
  LoadRecord failed = record("b", seconds(1), {});
  failed.outcome.error = "HTTP 429: full";
  const auto report = make_report({record("a", seconds(1), {millis(1100), millis(1150)}),
                                   record("a", seconds(1), {millis(2100), millis(2150)}), failed},
                                  {.ttft = millis(500), .tpot = millis(100)});
  ASSERT_EQ(report.models.size(), 2u);
  EXPECT_EQ(report.models[0].ttft_attained, 0.5);
  EXPECT_EQ(report.models[1].failed, 1);
  EXPECT_NEAR(report.all.slo_attained, 1.0 / 3, 1e-9);
  EXPECT_THAT(to_table(report), ::testing::HasSubstr("HTTP 429: full"));
  EXPECT_EQ(to_json(report)["models"][1]["failed"], 1);
}

}  // namespace
}  // namespace causeway::bench::report_test
