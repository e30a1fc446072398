#include "simulate/fleet_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/testing/small_fleet.h"

namespace causeway::simulate::fleet_simulation_test {
namespace {

using ::testing::HasSubstr;

using testing::make_options;
using testing::make_workload;
using testing::run_well;

TEST(FleetSimulation, OneSliceServesAsTheSliceAlone) {
  FleetSimulationOptions options = make_options(3, 1);
  options.models_max = 0;
  const Workload workload = make_workload(200, 5, 3);
  const auto fleet = run_well(options, workload);
  const auto alone = run(options.slice, workload).value();
  EXPECT_EQ(fleet.serving.total.completed, 200);
  EXPECT_EQ(fleet.serving.total.output_tokens, alone.total.output_tokens);
  const double fleet_ms = fleet.serving.total.tpot.mean() * 1e-6;
  EXPECT_NEAR(fleet_ms, alone.total.tpot.mean() * 1e-6, 0.1 * fleet_ms);
}

// No prompt repeats another here.
TEST(FleetSimulation, WithoutPrefixCachingTimesAreTheSame) {
  FleetSimulationOptions options = make_options(3, 2);
  options.keep_requests = true;
  options.slice.fast_forward = true;
  const Workload workload = make_workload(200, 20, 3);
  const auto cached = run_well(options, workload);
  options.slice.prefix_caching = false;
  const auto plain = run_well(options, workload);
  EXPECT_GT(cached.serving.engine.prefix_queried_tokens, 0);
  EXPECT_EQ(plain.serving.engine.prefix_queried_tokens, 0);
  EXPECT_EQ(cached.serving.total.completed, 200);
  ASSERT_EQ(plain.requests.size(), cached.requests.size());
  for (std::size_t i = 0; i < plain.requests.size(); ++i) {
    EXPECT_EQ(plain.requests[i].token_times, cached.requests[i].token_times) << "request " << i;
  }
}

TEST(FleetSimulation, ManyModelsOnFewSlicesAllEnd) {
  for (const auto kind : {fleet::PlacementKind::kBandwidth, fleet::PlacementKind::kRandom,
                          fleet::PlacementKind::kLocality, fleet::PlacementKind::kShared}) {
    FleetSimulationOptions options = make_options(20, 4);
    options.placement = kind;
    options.models_max = kind == fleet::PlacementKind::kShared ? 0 : 1;
    const auto report = run_well(options, make_workload(400, 4, 20));
    const LatencyReport& total = report.serving.total;
    EXPECT_EQ(total.completed + total.refused + total.errors, 400) << fleet::name_of(kind);
    EXPECT_GT(total.completed, 350) << fleet::name_of(kind) << "\n" << to_text(report);
    EXPECT_EQ(report.serving.unfinished, 0);
    EXPECT_LE(report.fleet.loads, 400 + 20);
    EXPECT_LE(report.link_busy, 1.0);
  }
}

TEST(FleetSimulation, DedicatedSlicesServeOnlyWhatHasOne) {
  FleetSimulationOptions options = make_options(8, 4);
  options.placement = fleet::PlacementKind::kDedicated;
  options.fleet.room_timeout = seconds(1);
  options.fleet.drain_after = std::nullopt;
  const auto report = run_well(options, make_workload(400, 8, 8));
  EXPECT_EQ(report.fleet.loads, 4);
  EXPECT_EQ(report.fleet.unloads, 0);
  std::int64_t served = 0;
  for (const auto& [name, model] : report.serving.models) served += model.completed > 0;
  EXPECT_EQ(served, 4);
  EXPECT_GT(report.serving.total.refused, 100);
}

TEST(FleetSimulation, SlicesShareTheLink) {
  // Four models that are streamed: 20 GB, of which 8 stay.
  const auto tpot = [](std::int64_t models) {
    FleetSimulationOptions options = make_options(static_cast<int>(models), 4, 200);
    const std::vector<FixedRequests> each(static_cast<std::size_t>(models),
                                          {.count = 4, .prompt = Tokens(50), .output = Tokens(40)});
    const auto report = run_well(options, fixed_workload(each));
    EXPECT_EQ(report.serving.total.completed, 4 * models) << to_text(report);
    EXPECT_LE(report.link_busy, 1.0);
    return report.serving.total.tpot.mean() * 1e-6;
  };
  const double alone = tpot(1), together = tpot(4);
  EXPECT_GT(alone, 20) << "ms: 12 GB over 400 GB/s and less";
  EXPECT_GT(together, 3 * alone) << "ms; and alone " << alone;
}

TEST(FleetSimulation, AColdModelComesFromDisk) {
  FleetSimulationOptions options = make_options(1, 1);
  options.load_ahead = false;
  const Workload workload = fixed_workload({{.count = 1}});
  const double home = run_well(options, workload).serving.total.ttft.mean();
  options.disk_bytes_per_second = 1e9;
  const double cold = run_well(options, workload).serving.total.ttft.mean();
  EXPECT_NEAR((cold - home) * 1e-9, 3.0, 0.01) << "3 GB at 1 GB/s";
}

TEST(FleetSimulation, HostMemoryThatHoldsTwoOfFour) {
  FleetSimulationOptions options = make_options(4, 2);
  options.host_memory = Bytes(6'500'000'000);
  options.disk_bytes_per_second = 10e9;
  const auto report = run_well(options, make_workload(100, 1, 4));
  EXPECT_EQ(report.serving.total.completed, 100) << to_text(report);
  EXPECT_GT(report.fleet.unloads, 2);
}

TEST(FleetSimulation, TheSameInputGivesTheSameReport) {
  FleetSimulationOptions options = make_options(10, 3);
  options.placement = fleet::PlacementKind::kRandom;
  const Workload workload = make_workload(200, 4, 10);
  EXPECT_EQ(to_json(run_well(options, workload)), to_json(run_well(options, workload)));
}

TEST(FleetSimulation, RefusesWhatIsNone) {
  FleetSimulationOptions options = make_options(1, 0);
  EXPECT_THAT(run_fleet(options, {}).error().message, HasSubstr("from 1 to 64"));
}

}  // namespace
}  // namespace causeway::simulate::fleet_simulation_test
