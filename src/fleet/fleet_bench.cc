// How long a decision of a large fleet takes (testing/large_fleet.h). Limit: 10 µs at p99. `warm`:
// all models are in host memory, and change slices; `cold`: host memory has room for a half, slices
// for eight each, and models come and go.
#include <benchmark/benchmark.h>

#include "fleet/testing/large_fleet.h"

namespace causeway::fleet {
namespace {

using testing::LargeFleet;
using testing::LargeFleetScenario;

void decide(benchmark::State& state, const LargeFleetScenario& scenario) {
  LargeFleet fleet(scenario);
  const FleetCounters before = fleet.counters();
  for (auto _ : state) state.SetIterationTime(to_seconds(fleet.happen()));
  const auto events = static_cast<double>(state.iterations());
  const auto per_event = [&](std::int64_t now, std::int64_t then) {
    return static_cast<double>(now - then) / events;
  };
  state.counters["p50_us"] = static_cast<double>(fleet.decisions().percentile(0.5)) / 1e3;
  state.counters["p99_us"] = static_cast<double>(fleet.decisions().percentile(0.99)) / 1e3;
  state.counters["loads"] = per_event(fleet.counters().loads, before.loads);
  state.counters["moves"] = per_event(fleet.counters().moves, before.moves);
}

BENCHMARK_CAPTURE(decide, warm_500_running, LargeFleetScenario{true, 500})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(200'000);
BENCHMARK_CAPTURE(decide, warm_5000_running, LargeFleetScenario{true, 5'000})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(200'000);
BENCHMARK_CAPTURE(decide, cold_500_running, LargeFleetScenario{false, 500})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(50'000);

}  // namespace
}  // namespace causeway::fleet
