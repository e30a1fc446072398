// The fast-forward against steps one by one, on random fleets: every time of every request, and
// every counter, must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "base/random.h"
#include "base/testing/seed_range.h"
#include "simulate/fleet_simulation.h"
#include "simulate/testing/shapes.h"

namespace causeway::simulate::fast_forward_test {
namespace {

ModelShape random_shape(const std::string& name, Random& random) {
  const int groups = static_cast<int>(random.between(3, 10));
  const Bytes group = mib(random.between(8, 200));
  ModelShape shape;
  shape.name = name;
  shape.weights = shape.weights_always = group * groups;
  shape.flops_per_token = 1e9 * static_cast<double>(random.between(1, 20));
  shape.flops_per_context_token = 1e4 * static_cast<double>(random.between(1, 50));
  shape.kv_per_token = kib(random.between(8, 128));
  shape.tokens_per_block = Tokens(random.between(1, 33));
  shape.max_model_len = Tokens(2048);
  shape.vocab = 1000;
  shape.config.layers = groups - 2;
  shape.config.tied_embeddings = true;
  testing::add_groups(groups, group, shape);
  if (random.chance(0.5)) {
    shape.reading.back().readable_at_home = true;
    shape.cached = weights::cached_model(shape.layout, shape.reading);
  }
  return shape;
}

FleetSimulationOptions random_fleet(Random& random) {
  FleetSimulationOptions options;
  options.machines = random.between(1, 3);
  options.slices = random.between(1, 2);
  options.slice.profile = slice_of(find_profile("h100").value(), options.slices);
  options.slice.kv_memory = mib(4) * random.between(30, 400);
  options.slice.profile.memory = options.slice.kv_memory + mib(random.between(1500, 8000));
  for (std::int64_t i = random.between(1, 5); i > 0; --i) {
    options.slice.models.push_back(random_shape("m" + std::to_string(i), random));
  }
  options.slice.prefix_caching = random.chance(0.4);
  options.slice.seed = random.bits();
  options.slice.schedule.running_max = random.chance(0.3) ? random.between(1, 4) : 256;
  options.slice.schedule.tokens_per_step_max = random.chance(0.3) ? random.between(4, 60) : 2048;
  if (random.chance(0.2)) options.slice.schedule.policy = schedule::PolicyKind::kPriority;
  if (random.chance(0.1)) options.slice.schedule.chunk.automatic = true;
  options.slice.step_start = static_cast<engine::StepStart>(random.below(3));
  options.models_max = random.below(3);
  options.fleet = {.waiting_max = 1000,
                   .loads_max = random.between(1, 6),
                   .room_timeout = seconds(20),
                   .drain_after = millis(random.between(1, 500)),
                   .moves = options.models_max == 0};
  options.load_ahead = random.chance(0.5);
  options.keep_requests = true;
  return options;
}

Workload random_workload(const FleetSimulationOptions& options, Random& random) {
  // All at once; so that some are alone; or so that few are.
  const double most = random.chance(0.5) ? 100 : 10;
  const double per_second = random.chance(0.2) ? 0 : 1 + most * random.uniform();
  Workload workload = poisson_workload({.requests = random.between(1, 40),
                                        .per_second = per_second,
                                        .models = options.slice.models.size(),
                                        .prompt_mean = Tokens(random.between(1, 200)),
                                        .output_mean = Tokens(random.between(1, 120)),
                                        .slo = {},
                                        .seed = random.bits()});
  for (Arrival& arrival : workload) {
    arrival.prompt = std::min(arrival.prompt, Tokens(400));
    arrival.output = std::min(arrival.output, Tokens(600));
    arrival.priority = static_cast<std::int32_t>(random.below(3));
    arrival.slo.tpot = micros(random.between(50, 5000));
    // Whole milliseconds: things come at the same time now and then.
    if (random.chance(0.3)) arrival.at = millis(arrival.at.count / 1'000'000);
  }
  std::sort(workload.begin(), workload.end(),
            [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  return workload;
}

bool same(const ServedRequest& a, const ServedRequest& b) {
  return a.token_times == b.token_times && a.ended == b.ended && a.failure == b.failure;
}

struct Sum {
  std::int64_t requests = 0, steps = 0, passed = 0, preemptions = 0, evictions = 0;
};

// One history, both ways; of three seeds two with a second thread, and one of these step by step.
void compare(std::uint64_t seed, Sum& sum) {
  Random random(seed);
  FleetSimulationOptions options = random_fleet(random);
  const Workload workload = random_workload(options, random);
  const auto slow = run_fleet(options, workload);
  options.slice.fast_forward = seed % 3 != 0;
  options.two_threads = seed % 3 != 1;
  const auto fast = run_fleet(options, workload);
  ASSERT_EQ(slow.ok(), fast.ok());
  if (!slow.ok()) return;
  ASSERT_EQ(to_json(*slow), to_json(*fast));
  ASSERT_EQ(slow->requests.size(), fast->requests.size());
  for (std::size_t i = 0; i < slow->requests.size(); ++i) {
    ASSERT_TRUE(same(slow->requests[i], fast->requests[i])) << "request " << i;
  }
  const SimulatedCounters &a = slow->serving.device, &b = fast->serving.device;
  ASSERT_EQ(a.steps, b.steps);
  ASSERT_EQ(a.steps_ahead, b.steps_ahead);
  ASSERT_EQ(a.tokens_pending, b.tokens_pending);
  ASSERT_EQ(a.busy, b.busy);
  ASSERT_EQ(a.weights_wait, b.weights_wait);
  ASSERT_EQ(slow->serving.engine.device_busy, fast->serving.engine.device_busy);
  ASSERT_EQ(slow->serving.engine.generated_tokens, fast->serving.engine.generated_tokens);
  sum.requests += std::ssize(workload);
  sum.steps += b.steps;
  sum.passed += fast->steps_passed;
  sum.preemptions += fast->serving.engine.preemptions;
  sum.evictions += fast->serving.weights.evictions;
}

// One history with --gtest_random_seed=N, all of them without.
TEST(FastForward, IsAsStepsOneByOne) {
  const int only = GTEST_FLAG_GET(random_seed);
  // 10,000 take half a minute.
  const SeedRange all = seeds_of("CAUSEWAY_FAST_FORWARD_HISTORIES", CAUSEWAY_HISTORIES / 10);
  const int first = only != 0 ? only : all.first, last = only != 0 ? only : all.last;
  const int histories = all.count();
  Sum sum;
  for (int seed = first; seed <= last; ++seed) {
    compare(static_cast<std::uint64_t>(seed), sum);
    if (::testing::Test::HasFatalFailure()) {
      FAIL() << "reproduce: simulate_test --gtest_filter='FastForward.*' --gtest_random_seed="
             << seed;
    }
  }
  std::cout << sum.requests << " requests, " << sum.steps << " steps, of which " << sum.passed
            << " were passed; " << sum.preemptions << " preemptions, " << sum.evictions
            << " evictions\n";
  if (only != 0) return;
  EXPECT_GT(sum.passed, sum.steps / 5);
  EXPECT_GT(sum.preemptions, histories / 10);
  EXPECT_GT(sum.evictions, histories / 20);
}

}  // namespace
}  // namespace causeway::simulate::fast_forward_test
