// The chunk controller in whole simulations: the directions of the tables of docs/design/chunks.md.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "simulate/simulate.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::chunk_test {
namespace {

ModelShape llama_8b() {
  return shape_of("llama-3-8b", testing::llama_8b(Tokens(16'384)), mib(4)).value();
}

constexpr request::Slo kSlo{.ttft = seconds(1), .tpot = millis(50)};

// Documents and chats, by halves (tools/workloads/chunk_tables.py).
Workload mix(double per_second, double for_seconds, std::size_t models = 1) {
  Random random(21);
  Workload workload;
  for (double at = 0; at < for_seconds; at += random.exponential(1 / per_second)) {
    const bool document = random.chance(0.5);
    Arrival arrival;
    arrival.at = nanos_from_seconds(at);
    arrival.model = workload.size() % models;
    arrival.prompt = Tokens(document ? random.between(2000, 8000) : random.between(50, 400));
    const double answer = random.exponential(document ? 200 : 400);
    arrival.output = Tokens(std::max<std::int64_t>(2, static_cast<std::int64_t>(answer)));
    arrival.slo = kSlo;
    workload.push_back(arrival);
  }
  return workload;
}

SimulationReport simulate(const Workload& workload, std::int64_t tokens, bool automatic,
                          std::size_t models = 1) {
  SimulationOptions options;
  options.profile = find_profile("h200").value();
  options.models.assign(models, llama_8b());
  options.kv_memory = Bytes(60'000'000'000);
  options.schedule.tokens_per_step_max = tokens;
  options.schedule.chunk.automatic = automatic;
  const auto report = run(options, workload);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report->total.completed, report->total.requests);
  return *report;
}

LatencyReport serve(const Workload& workload, std::int64_t tokens, bool automatic,
                    std::size_t models = 1) {
  return simulate(workload, tokens, automatic, models).total;
}

double share(std::int64_t part, const LatencyReport& report) {
  return static_cast<double>(part) / static_cast<double>(report.requests);
}

TEST(SimulatedChunks, AutoKeepsMoreTargetsThanAnyFixedChunk) {
  const Workload workload = mix(12, 20);
  const SimulationReport ours = simulate(workload, 8192, true);
  const LatencyReport& chosen = ours.total;
  for (const std::int64_t tokens : {512, 2048, 8192}) {
    const SimulationReport fixed = simulate(workload, tokens, false);
    EXPECT_GE(chosen.slo_both_met, fixed.total.slo_both_met) << tokens;
    EXPECT_LE(to_seconds(ours.duration), 1.02 * to_seconds(fixed.duration)) << tokens;
  }
  // Small chunks keep TPOT and lose TTFT, large ones the other way round.
  const LatencyReport small = serve(workload, 512, false), large = serve(workload, 8192, false);
  EXPECT_LT(share(small.slo_ttft_met, small), 0.9) << "the load is not the one meant";
  EXPECT_LT(share(large.slo_tpot_met, large), 0.9) << "the load is not the one meant";
  EXPECT_GE(share(chosen.slo_tpot_met, chosen), 0.99);
  EXPECT_GE(chosen.slo_ttft_met, small.slo_ttft_met);
}

TEST(SimulatedChunks, UnderLightLoadGapsStayEven) {
  const Workload workload = mix(5, 15);
  const LatencyReport chosen = serve(workload, 8192, true), fixed = serve(workload, 8192, false);
  EXPECT_EQ(chosen.slo_both_met, chosen.requests);
  EXPECT_GT(chosen.gaps_met, fixed.gaps_met);
  EXPECT_GE(chosen.gaps_met * 1000, chosen.tbt.count() * 999);
}

TEST(SimulatedChunks, ModelsThatTakeTurnsShareTheGap) {
  const Workload workload = mix(8, 15, 2);
  const LatencyReport chosen = serve(workload, 8192, true, 2);
  const LatencyReport fixed = serve(workload, 8192, false, 2);
  EXPECT_GE(chosen.slo_both_met, fixed.slo_both_met);
  EXPECT_GT(chosen.gaps_met, fixed.gaps_met);
  EXPECT_GE(share(chosen.slo_tpot_met, chosen), 0.95);
}

}  // namespace
}  // namespace causeway::simulate::chunk_test
