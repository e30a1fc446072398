#include "bench/replay_simulated.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "catalogue/synthetic_catalogue.h"

namespace causeway::bench::replay_simulated_test {
namespace {

// An H200 with 8 GB for weights of a catalogue that has more.
simulate::FleetSimulationOptions fleet_of(std::int64_t models) {
  simulate::FleetSimulationOptions fleet;
  fleet.slice.profile = simulate::find_profile("h200").value();
  fleet.slice.kv_memory = gib(8);
  fleet.slice.profile.memory = gib(16);
  fleet.models_max = 0;
  for (const NamedConfig& model : synthetic_catalogue({.models = models})) {
    fleet.slice.models.push_back(
        simulate::shape_of(model.name, model.config, fleet.slice.frame).value());
  }
  return fleet;
}

TEST(ReplaySimulated, ReportsEachRequestAndWhatMoved) {
  const ReplayOptions options{.rate = 10, .seconds = 20, .input = 200, .output = 20, .zipf = 0};
  const auto report = replay_simulated(fleet_of(20), options).value();
  EXPECT_EQ(report.mode, "simulated");
  EXPECT_EQ(report.models, 20u);
  EXPECT_EQ(report.load.all.failed, 0) << to_text(report);
  EXPECT_EQ(report.short_answers, 0);
  EXPECT_EQ(report.load.all.output_tokens, 20 * report.load.all.requests);
  EXPECT_GT(report.load.all.slo_attained, 0.5);
  ASSERT_TRUE(report.counters.switches.has_value());
  EXPECT_GT(*report.counters.switches, 20) << "the cache does not hold them all";
  EXPECT_GT(report.counters.bytes.at("weights in"), 8'000'000'000);
  EXPECT_GT(*report.counters.busy, 0);
  EXPECT_LT(*report.counters.busy, 1);
  std::int64_t arrivals = 0;
  for (const ReplaySlot& slot : report.slots) arrivals += slot.arrivals;
  EXPECT_EQ(arrivals, report.load.all.requests);
  std::int64_t moved = 0;
  for (const ReplaySlot& slot : report.slots) moved += slot.bytes.at("weights in");
  EXPECT_EQ(moved, report.counters.bytes.at("weights in"));
  EXPECT_GT(report.slots[0].bytes.at("weights in"), 0) << "the first models come at once";
  EXPECT_EQ(to_json(report)["slots"][0]["bytes"].size(), 1u) << "there are no other purposes";
  EXPECT_EQ(report.slots.back().running, 0);
}

TEST(ReplaySimulated, TheSameListGivesTheSameReport) {
  const ReplayOptions options{.rate = 10, .seconds = 5, .input = 200, .output = 20};
  const auto text = [&] { return to_json(replay_simulated(fleet_of(5), options).value()).dump(); };
  EXPECT_EQ(text(), text());
}

TEST(ReplaySimulated, TheClientSeesTokensAfterTheirPath) {
  const ReplayOptions options{.rate = 10, .seconds = 5, .input = 200, .output = 20};
  auto fleet = fleet_of(5);
  const auto client = replay_simulated(fleet, options).value();
  const Nanos path = std::exchange(fleet.slice.profile.request_path, Nanos(0));
  const auto engine = replay_simulated(fleet, options).value();
  EXPECT_GT(path, Nanos(0));
  EXPECT_NEAR(client.load.all.ttft_ms.mean - engine.load.all.ttft_ms.mean, to_millis(path), 0.01);
  EXPECT_EQ(client.load.all.tpot_ms.p50, engine.load.all.tpot_ms.p50);
}

TEST(ReplaySimulated, SleepAndWakeMovesWeightsOut) {
  const ReplayOptions options{.rate = 10, .seconds = 10, .input = 200, .output = 20, .zipf = 0};
  auto fleet = fleet_of(20);
  const auto ours = replay_simulated(fleet, options).value();
  fleet.slice.step_start = engine::StepStart::kAllCached;
  fleet.slice.whole_models = fleet.slice.copies_out = true;
  const auto theirs = replay_simulated(fleet, options).value();
  EXPECT_EQ(ours.counters.bytes.count("weights out"), 0u);
  EXPECT_GT(theirs.counters.bytes.at("weights out"), 1'000'000'000);
  EXPECT_LT(theirs.counters.bytes.at("weights out"), theirs.counters.bytes.at("weights in"));
  EXPECT_GT(theirs.load.all.ttft_ms.mean, ours.load.all.ttft_ms.mean);
}

TEST(ReplaySimulated, WhatIsRefusedIsAnErrorOfItsKind) {
  simulate::FleetSimulationOptions fleet = fleet_of(3);
  fleet.slice.kv_memory = fleet.slice.frame;  // holds few tokens
  const ReplayOptions options{.rate = 5, .seconds = 2, .input = 3000, .output = 20};
  const auto report = replay_simulated(std::move(fleet), options).value();
  EXPECT_EQ(report.errors.at("refused"), report.load.all.requests);
  EXPECT_EQ(report.load.all.slo_attained, 0);
}

}  // namespace
}  // namespace causeway::bench::replay_simulated_test
