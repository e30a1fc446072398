// How long the scheduler takes to decide an iteration of 1,000 running and 9,000 waiting requests.
// Limit: 200 µs. Executing the decision and the requests that come and go are not timed.
#include <benchmark/benchmark.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/random.h"
#include "schedule/testing/harness.h"

namespace causeway::schedule {
namespace {

constexpr std::int64_t kRunning = 1'000;
constexpr std::int64_t kAll = 10'000;
constexpr std::int64_t kBlock = 32;

struct Scenario {
  PolicyKind policy;
  std::int64_t frames;  // 1,000 sequences take about 12,000 of them
  std::int64_t models;
};

void top_up(Harness& harness, const Scenario& scenario, Random& random, std::int64_t& next_id) {
  while (harness.left() < kAll) {
    harness.add(next_id, ModelId(next_id % scenario.models), random.between(16, 512),
                random.between(16, 400), static_cast<std::int32_t>(random.below(5)));
    ++next_id;
  }
}

void run(benchmark::State& state, const Scenario& scenario) {
  Harness harness({.schedule = {.policy = scenario.policy,
                                .tokens_per_step_max = 4'096,
                                .running_max = kRunning},
                   .frames = scenario.frames});
  for (std::int64_t model = 0; model < scenario.models; ++model) {
    harness.add_model(ModelId(model), kBlock);
  }
  const RealClock clock;
  Random random(1);
  std::int64_t next_id = 0;
  std::int64_t now = 0;
  std::int64_t preemptions = 0;
  for (int warm_up = 0; warm_up < 300; ++warm_up) {
    top_up(harness, scenario, random, next_id);
    harness.step(Nanos(next_id + ++now));
  }
  Histogram durations;
  double running = 0;
  for (auto _ : state) {
    top_up(harness, scenario, random, next_id);
    const Nanos begin = clock.now();
    harness.decide(Nanos(next_id + ++now));
    const Nanos end = clock.now();
    state.SetIterationTime(to_seconds(end - begin));
    durations.record((end - begin).count);
    preemptions += static_cast<std::int64_t>(harness.decision().preempted.size());
    running += static_cast<double>(harness.scheduler().running());
    harness.execute();
    harness.complete(Nanos(next_id + now));
  }
  const auto steps = static_cast<double>(state.iterations());
  state.counters["p50_us"] = static_cast<double>(durations.percentile(0.5)) / 1e3;
  state.counters["p99_us"] = static_cast<double>(durations.percentile(0.99)) / 1e3;
  state.counters["running"] = running / steps;
  state.counters["preempted_per_step"] = static_cast<double>(preemptions) / steps;
}

BENCHMARK_CAPTURE(run, fcfs_one_model, Scenario{PolicyKind::kFcfs, 20'000, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(2'000);
BENCHMARK_CAPTURE(run, fcfs_scarce_frames, Scenario{PolicyKind::kFcfs, 9'000, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(2'000);
BENCHMARK_CAPTURE(run, priority_one_model, Scenario{PolicyKind::kPriority, 20'000, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(2'000);
BENCHMARK_CAPTURE(run, priority_scarce_frames, Scenario{PolicyKind::kPriority, 9'000, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(2'000);
BENCHMARK_CAPTURE(run, fcfs_ten_models, Scenario{PolicyKind::kFcfs, 20'000, 10})
    ->Unit(benchmark::kMicrosecond)
    ->UseManualTime()
    ->Iterations(2'000);

}  // namespace
}  // namespace causeway::schedule
