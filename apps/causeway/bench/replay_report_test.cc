#include "bench/replay_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace causeway::bench::replay_report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Nanos kBegin = seconds(1000);  // of the clock
constexpr Targets kTargets{.ttft = millis(500), .tpot = millis(100)};

struct Sample {
  simulate::Workload list;
  std::vector<LoadRecord> records;

  // Times in ms since the begin. The answer wants 3 tokens.
  StreamOutcome& add(std::int64_t at, const std::vector<std::int64_t>& tokens, std::int64_t ended) {
    simulate::Arrival arrival;
    arrival.at = millis(at);
    arrival.output = Tokens(3);
    list.push_back(arrival);
    LoadRecord& record = records.emplace_back();
    record.model = "m";
    record.scheduled = kBegin + millis(at);
    for (const std::int64_t time : tokens) {
      record.outcome.token_times.push_back(kBegin + millis(time));
    }
    record.outcome.completion_tokens = std::ssize(tokens);
    record.outcome.ended = kBegin + millis(ended);
    return record.outcome;
  }
};

Sample by_hand() {
  Sample sample;
  sample.add(0, {400, 500, 600}, 600);        // both, TPOT just
  sample.add(200, {800, 850, 900}, 900);      // late by 100 ms
  sample.add(900, {1000, 1300, 1600}, 1600);  // TPOT 300 ms
  sample.add(1500, {1600, 1650}, 1650);       // short
  StreamOutcome& failed = sample.add(1700, {}, 3200);
  failed.error = "HTTP 429: full";
  failed.failure = "HTTP 429";
  return sample;
}

TEST(ReplayReport, CountsWhoKeepsWhichTarget) {
  const Sample sample = by_hand();
  const auto report = report_replay(sample.list, sample.records, kTargets, {});
  EXPECT_DOUBLE_EQ(report.load.all.ttft_attained, 3.0 / 5);
  EXPECT_DOUBLE_EQ(report.load.all.tpot_attained, 3.0 / 5);
  EXPECT_DOUBLE_EQ(report.load.all.slo_attained, 2.0 / 5);
  EXPECT_EQ(report.load.all.failed, 1);
  EXPECT_EQ(report.errors, (std::map<std::string, std::int64_t>{{"HTTP 429", 1}}));
  EXPECT_EQ(report.short_answers, 1);
  EXPECT_EQ(report.load.duration, millis(3200));
  EXPECT_NEAR(report.load.all.ttft_ms.p99, 600, 5);
  EXPECT_NEAR(report.load.all.tpot_ms.p99, 300, 3);
}

TEST(ReplayReport, EachSecondHasWhoArrivedAndWhoRan) {
  const Sample sample = by_hand();
  const auto report = report_replay(sample.list, sample.records, kTargets, {});
  ASSERT_EQ(report.slots.size(), 4u);
  EXPECT_EQ(report.slot, seconds(1));
  EXPECT_EQ(report.slots[0].arrivals, 3);
  EXPECT_EQ(report.slots[0].attained, 1);
  EXPECT_EQ(report.slots[0].running, 1) << "the third";
  EXPECT_NEAR(report.slots[0].ttft_mean_ms, (400 + 600 + 100) / 3.0, 1e-6);
  EXPECT_EQ(report.slots[0].ttft_most_ms, 600);
  EXPECT_EQ(report.slots[1].arrivals, 2);
  EXPECT_EQ(report.slots[1].attained, 1);
  EXPECT_EQ(report.slots[1].running, 1) << "the one that failed later";
  EXPECT_EQ(report.slots[1].ttft_mean_ms, 100) << "of the one that had a token";
  EXPECT_EQ(report.slots[2].running, 1);
  EXPECT_EQ(report.slots[3].running, 0);
}

TEST(ReplayReport, ALongReplayHasLongerSlots) {
  Sample sample;
  sample.add(0, {1}, 1);
  sample.add(10'000'000, {10'000'001}, 10'000'001);
  const auto report = report_replay(sample.list, sample.records, kTargets, {});
  EXPECT_EQ(report.slot, seconds(3));
  EXPECT_EQ(report.slots.size(), 3334u);
  EXPECT_EQ(report.slots.back().arrivals, 1);
}

TEST(ReplayReport, NothingIsAReportToo) {
  const auto report = report_replay({}, {}, kTargets, {});
  EXPECT_TRUE(report.slots.empty());
  EXPECT_THAT(to_text(report), HasSubstr("0 requests"));
}

TEST(ReplayReport, TextAndJsonSayTheSame) {
  const Sample sample = by_hand();
  ReplayCounters counters;
  counters.switches = 7;
  counters.switch_ms = 45;
  counters.busy = 0.5;
  counters.bytes = {{"weights in", 12'300'000'000}};
  counters.kv_blocks = {{"eager out", 0}};
  auto report = report_replay(sample.list, sample.records, kTargets, counters);
  report.mode = "server";
  report.source = "here";
  report.models = 9;
  const std::string text = to_text(report);
  for (const char* said :
       {"here: 5 requests to 1 of 9 models", "TTFT ≤ 500 ms: 60.00 %", "both: 40.00 %",
        "errors: HTTP 429 1; the first: HTTP 429: full", "1 answers have fewer tokens",
        "7 switches of 45 ms", "weights in 12.3 GB", "devices busy 50 %"}) {
    EXPECT_THAT(text, HasSubstr(said));
  }
  EXPECT_THAT(text, Not(HasSubstr("preemptions")));
  EXPECT_THAT(text, Not(HasSubstr("KV blocks"))) << "there were none";
  const auto json = to_json(report);
  EXPECT_EQ(json["bench"], "replay");
  EXPECT_EQ(json["mode"], "server");
  EXPECT_EQ(json["all"]["slo_attained"], 0.4);
  EXPECT_EQ(json["errors"]["HTTP 429"], 1);
  EXPECT_EQ(json["counters"]["switches"], 7);
  EXPECT_TRUE(json["counters"]["preemptions"].is_null());
  EXPECT_EQ(json["slots"].size(), 4u);
  EXPECT_EQ(json["slots"][0]["arrivals"], 3);
}

std::vector<MetricSample> metrics(const std::string& text) { return parse_metrics(text).value(); }

TEST(ReplayCounters, AreWhatGrewMeanwhile) {
  const auto before = metrics(
      "causeway:model_switch_seconds_count{from=\"host\",model_name=\"a\"} 2\n"
      "causeway:model_switch_seconds_sum{from=\"host\",model_name=\"a\"} 1\n"
      "causeway:model_switch_seconds_count{from=\"host\",model_name=\"b\"} 0\n"
      "causeway:link_bytes_total{direction=\"in\",purpose=\"weights\"} 100\n"
      "causeway:kv_rotation_blocks_total{direction=\"out\",reason=\"eager\"} 9\n");
  const auto after = metrics(
      "causeway:model_switch_seconds_count{from=\"host\",model_name=\"a\"} 5\n"
      "causeway:model_switch_seconds_sum{from=\"host\",model_name=\"a\"} 1.5\n"
      "causeway:model_switch_seconds_count{from=\"host\",model_name=\"b\"} 1\n"
      "causeway:link_bytes_total{direction=\"in\",purpose=\"weights\"} 600\n"
      "causeway:kv_rotation_blocks_total{direction=\"out\",reason=\"eager\"} 4\n");
  const ReplayCounters counters = counters_between(before, after, seconds(2));
  EXPECT_EQ(counters.switches, 4);
  EXPECT_DOUBLE_EQ(*counters.switch_ms, 125);
  EXPECT_EQ(counters.bytes.at("weights in"), 500);
  EXPECT_TRUE(counters.kv_blocks.empty()) << "they became fewer";
  EXPECT_FALSE(counters.preemptions.has_value());
  EXPECT_FALSE(counters.busy.has_value());
  EXPECT_EQ(counters.missing, "");
}

TEST(ReplayCounters, OfAnotherServerAreMissing) {
  const auto other = metrics("vllm:num_requests_running 3\n");
  EXPECT_NE(counters_between(other, other, seconds(1)).missing, "");
}

}  // namespace
}  // namespace causeway::bench::replay_report_test
