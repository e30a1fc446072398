#include <benchmark/benchmark.h>

#include "bench/server/measure.h"

namespace causeway::server {
namespace {

void report(benchmark::State& state, const Result<ServerMeasurement>& measured) {
  if (!measured.ok()) {
    state.SkipWithError(measured.error().message.c_str());
    return;
  }
  const ServerMeasurement& value = *measured;
  state.counters["first_byte_us_p50"] =
      static_cast<double>(value.load.first_byte_ns.percentile(0.5)) * 1e-3;
  state.counters["first_byte_us_p99"] =
      static_cast<double>(value.load.first_byte_ns.percentile(0.99)) * 1e-3;
  state.counters["complete"] = static_cast<double>(value.load.complete);
  state.counters["failed"] = static_cast<double>(value.load.failed);
  state.counters["memory_mb"] = static_cast<double>(value.memory_growth.count) * 1e-6;
}

void time_to_first_byte(benchmark::State& state) {
  const RealClock clock;
  for (auto _ : state) {
    report(state, measure_first_byte(static_cast<int>(state.range(0)), 32, 20, 2, clock));
  }
}
BENCHMARK(time_to_first_byte)->Arg(64)->Iterations(1)->Unit(benchmark::kMillisecond);

void concurrent_streams(benchmark::State& state) {
  const RealClock clock;
  for (auto _ : state) {
    report(state, measure_concurrency(static_cast<int>(state.range(0)), 64, 2, clock));
  }
}
BENCHMARK(concurrent_streams)->Arg(2000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace causeway::server
