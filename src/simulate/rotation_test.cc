// KV rotation in whole simulations: the paper's directions for policies under overload, what is
// reported of it, and bursty arrivals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "simulate/simulate.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::rotation_test {
namespace {

using schedule::PolicyKind;
using schedule::PreemptionKind;

ModelShape llama_8b() {
  return shape_of("llama-3-8b", testing::llama_8b(Tokens(8192)), mib(4)).value();
}

// A GH200 of whose memory KV has a part.
SimulationOptions options_for(PolicyKind policy, Bytes kv = Bytes(12'000'000'000)) {
  SimulationOptions options;
  options.profile = find_profile("gh200").value();
  options.models.push_back(llama_8b());
  options.kv_memory = kv;
  options.kv_host_memory = Bytes(200'000'000'000);
  options.schedule = {.policy = policy,
                      .preemption = PreemptionKind::kRotate,
                      .tokens_per_step_max = 2048,
                      .running_max = 1024};
  return options;
}

// Lengths as those of ShareGPT: prompts of 220 tokens and answers of 345 in the mean.
Workload chats(double per_second, double for_seconds, std::uint64_t seed = 5) {
  Random random(seed);
  const auto length = [&](double mean, double spread, double most) {
    const double drawn = std::exp(mean + spread * random.normal());
    return Tokens(static_cast<std::int64_t>(std::clamp(drawn, 2.0, most)));
  };
  Workload workload;
  for (double at = 0; at < for_seconds; at += random.exponential(1 / per_second)) {
    Arrival arrival;
    arrival.at = nanos_from_seconds(at);
    arrival.prompt = length(4.8, 1.1, 2000);
    arrival.output = length(5.6, 0.7, 1500);
    workload.push_back(arrival);
  }
  return workload;
}

double share(std::int64_t part, const LatencyReport& report) {
  return static_cast<double>(part) / static_cast<double>(report.requests);
}
double tokens_per_second(const SimulationReport& report) {
  return static_cast<double>(report.total.output_tokens) / to_seconds(report.duration);
}

TEST(SimulatedRotation, RotaryKeepsTargetsThatOthersMissUnderOverload) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: figures of one thread";
  const Workload workload = chats(79, 40);
  const auto serve = [&](PolicyKind policy) {
    const auto report = run(options_for(policy), workload);
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report->total.completed, report->total.requests);
    return *report;
  };
  const SimulationReport fcfs = serve(PolicyKind::kFcfs), rotary = serve(PolicyKind::kRotary);
  const SimulationReport waiting = serve(PolicyKind::kWaitingFirst);
  const SimulationReport artifact = serve(PolicyKind::kArtifact);
  const double fcfs_ttft = share(fcfs.total.slo_ttft_met, fcfs.total);
  EXPECT_GT(fcfs_ttft, 0.4) << "the load is not the one meant";
  EXPECT_LT(fcfs_ttft, 0.65) << "the load is not the one meant";
  EXPECT_GE(static_cast<double>(rotary.total.slo_both_met),
            1.5 * static_cast<double>(fcfs.total.slo_both_met));
  double best = 0;
  for (const SimulationReport* other : {&fcfs, &waiting, &artifact}) {
    EXPECT_GE(rotary.total.slo_both_met, other->total.slo_both_met);
    best = std::max(best, tokens_per_second(*other));
  }
  EXPECT_GE(tokens_per_second(rotary), 0.98 * best);
  // Who is ahead pauses, others do not: nearly all gaps keep the target, too.
  EXPECT_GE(share(rotary.total.slo_all_met, rotary.total), 0.95);
  EXPECT_GE(rotary.total.gaps_met * 100, rotary.total.tbt.count() * 99);
  EXPECT_EQ(rotary.device.tokens_again, 0);
}

TEST(SimulatedRotation, ThePaperMovesMuchMoreForLess) {
  if (kSanitized) GTEST_SKIP() << "needs a build without sanitizers: figures of one thread";
  const Workload workload = chats(90, 10);
  SimulationOptions options = options_for(PolicyKind::kRotary, Bytes(6'000'000'000));
  const auto ours = run(options, workload);
  options.schedule.rotation.lag = schedule::kLagOfPaper;
  const auto paper = run(options, workload);
  ASSERT_TRUE(ours.ok() && paper.ok());
  EXPECT_GT(ours->engine.rotations, 0);
  EXPECT_LT(ours->kv_in_bytes.count * 2, paper->kv_in_bytes.count);
  EXPECT_GE(ours->total.slo_both_met, paper->total.slo_both_met);
  EXPECT_GT(ours->total.gaps_met, paper->total.gaps_met);
}

TEST(SimulatedRotation, WithoutHostMemoryVictimsAreComputedAgain) {
  SimulationOptions options = options_for(PolicyKind::kFcfs, Bytes(2'000'000'000));
  const Workload workload = chats(60, 5);
  const auto rotated = run(options, workload);
  options.kv_host_memory = Bytes(0);
  options.schedule.preemption = PreemptionKind::kRecompute;
  const auto recomputed = run(options, workload);
  ASSERT_TRUE(rotated.ok() && recomputed.ok());
  EXPECT_GT(rotated->engine.rotations, 0);
  EXPECT_EQ(rotated->device.tokens_again, 0);
  EXPECT_EQ(recomputed->engine.rotations, 0);
  EXPECT_GT(recomputed->engine.preemptions, 0);
  EXPECT_GT(recomputed->device.tokens_again, 0);
  EXPECT_EQ(recomputed->kv_out_bytes, Bytes(0));
}

TEST(SimulatedRotation, EveryPolicyServesEverybody) {
  const Workload workload = chats(60, 2);
  for (int kind = 0; kind < 9; ++kind) {
    const auto policy = static_cast<PolicyKind>(kind);
    const auto report = run(options_for(policy, Bytes(1'500'000'000)), workload);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->total.completed, report->total.requests) << name_of(policy);
  }
}

TEST(SimulatedRotation, IsReportedAsTextAndAsJson) {
  const auto report = run(options_for(PolicyKind::kRotary, Bytes(1'500'000'000)), chats(60, 3));
  ASSERT_TRUE(report.ok());
  const auto json = nlohmann::json::parse(to_json(*report));
  const auto& rotation = json.at("rotation");
  const request::KvCopyCounts& copies = report->engine.kv_copies;
  EXPECT_GT(copies.rotation_in, 0);
  EXPECT_EQ(rotation.at("blocks_in"), copies.rotation_in);
  // What was still under way at the end is not counted.
  EXPECT_LE(rotation.at("bytes_in").get<std::int64_t>(), mib(4).count * copies.rotation_in);
  EXPECT_LE(rotation.at("bytes_out").get<std::int64_t>(),
            mib(4).count * (copies.rotation_out + copies.eager_out));
  EXPECT_GT(rotation.at("bytes_out"), 0);
  const auto& total = json.at("total");
  EXPECT_LE(total.at("slo_both_percent"), total.at("slo_ttft_percent"));
  EXPECT_LE(total.at("tbt").at("p50_ms"), total.at("tbt").at("p99_ms"));
  EXPECT_NE(to_text(*report).find("KV rotation"), std::string::npos);
}

// One prompt, then a gap that another's prompt makes late.
TEST(SimulatedRotation, GapsAreCountedOneByOne) {
  SimulationOptions options = options_for(PolicyKind::kFcfs);
  options.schedule.tokens_per_step_max = 8192;
  Workload workload(2);
  workload[0].output = Tokens(20);
  workload[1].at = millis(80);  // the weights have come in 40 ms
  workload[1].prompt = Tokens(6000);
  for (Arrival& arrival : workload) arrival.slo.tpot = millis(20);
  const auto report = run(options, workload);
  ASSERT_TRUE(report.ok());
  const LatencyReport& total = report->total;
  EXPECT_EQ(total.tbt.count(), 19);
  EXPECT_EQ(total.gaps_met, 18);
  EXPECT_EQ(total.slo_tpot_met, 2) << "by the mean";
  EXPECT_EQ(total.slo_pauses_met, 1) << "one of 19 is more than 1 %";
}

TEST(SimulatedRotation, RefusesWhatIsOutOfRange) {
  const Workload workload = chats(10, 1);
  const auto refused = [&](auto change) {
    SimulationOptions options = options_for(PolicyKind::kRotary);
    change(options);
    const auto report = run(options, workload);
    return !report.ok() && report.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& options) { options.kv_host_memory = mib(1); }));
  EXPECT_TRUE(refused([](auto& options) { options.models[0].rotary_alpha = 0; }));
  EXPECT_TRUE(refused([](auto& options) { options.rotation.frames_share_max = 0.6; }));
  EXPECT_TRUE(refused([](auto& options) { options.rotation.rate_share_min = 1.5; }));
  EXPECT_TRUE(refused([](auto& options) { options.schedule.rotation.lag.ahead_share = 2; }));
  EXPECT_TRUE(refused([](auto& options) { options.schedule.rotation.lag.late_after = 0.5; }));
  EXPECT_TRUE(refused([](auto& options) { options.schedule.rotation.predicted_error = -1; }));
  EXPECT_TRUE(refused([](auto& options) {
    options.profile.kv_in_bytes_per_second = options.profile.kv_out_bytes_per_second = 0;
  }));
  Workload slack = workload;
  slack[0].slo.ttft_slack = 1.5;
  EXPECT_FALSE(run(options_for(PolicyKind::kRotary), slack).ok());
}

TEST(HardwareProfile, KvMovesAtTheLinksRateUnlessItSays) {
  const std::string head = R"({"name": "x", "description": "", "tflops": 1, "memory_gb_per_s": 1,
                               "memory_gb": 1, "link_gb_per_s": 7, "step_overhead_us": 1)";
  const auto plain = parse_profile(head + "}");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->kv_in_bytes_per_second, 7e9);
  const auto duplex = parse_profile(head + R"(, "kv_in_gb_per_s": 3, "kv_out_gb_per_s": 4})");
  ASSERT_TRUE(duplex.ok());
  EXPECT_EQ(duplex->kv_out_bytes_per_second, 4e9);
  EXPECT_FALSE(parse_profile(head + R"(, "kv_in_gb_per_s": 0})").ok());
  EXPECT_FALSE(parse_profile(head + R"(, "kv_in_gb_per_s": -1})").ok());
  EXPECT_EQ(find_profile("gh200-144gb")->memory, Bytes(144'000'000'000));
}

TEST(Workload, TracesLendTheirLengthsToMadeArrivals) {
  request::Trace trace;
  trace.has_arrivals = trace.has_lengths = true;
  for (int i = 0; i < 3; ++i) {
    request::TraceEntry entry;
    entry.arrival = seconds(i);
    entry.prompt = Tokens(10 + i);
    entry.output = Tokens(5);
    entry.block_ids = {7};
    trace.entries.push_back(entry);
  }
  TraceOptions options{.per_second = 10, .burstiness = 0.5, .slo = {}};
  options.own_arrivals = false;
  options.requests = 3000;
  const auto made = trace_workload(trace, options);
  ASSERT_TRUE(made.ok());
  ASSERT_EQ(made->size(), 3000u);
  EXPECT_EQ((*made)[2999].prompt, Tokens(12));
  EXPECT_NEAR(to_seconds(made->back().at), 300, 30);
  EXPECT_FALSE((*made)[1].block_ids.empty());
  EXPECT_TRUE((*made)[3].block_ids.empty()) << "who comes again asks something else";
  options.own_arrivals = true;
  EXPECT_FALSE(trace_workload(trace, options).ok()) << "more than were recorded";
  options.requests = 2;
  EXPECT_EQ(trace_workload(trace, options)->back().at, seconds(1));
  for (const double burstiness : {0.0, -1.0, 2000.0, std::nan("")}) {
    options.burstiness = burstiness;
    EXPECT_FALSE(trace_workload(trace, options).ok()) << burstiness;
  }
}

}  // namespace
}  // namespace causeway::simulate::rotation_test
