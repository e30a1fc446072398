#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/testing/seed_range.h"
#include "simulate/testing/fleet_engines_history.h"

namespace causeway::simulate::fleet_engines_history_test {
namespace {

// A failed CHECK aborts: say which history it was.
volatile std::sig_atomic_t fleet_seed_running = 0;
void report_fleet_seed(int) {
  std::fprintf(stderr, "reproduce: simulate_test --gtest_filter='FleetEngines.*' %s%d\n",
               "--gtest_random_seed=", static_cast<int>(fleet_seed_running));
}

struct EnginesSum {
  std::int64_t requests = 0, finished = 0, cancelled = 0, errors = 0, hung = 0, resumed = 0;
  std::int64_t resumed_finished = 0, tokens = 0, steps = 0, slices_lost = 0, resizes = 0;
  std::int64_t loads = 0, loads_lost = 0, unloads = 0, moves = 0, migrations = 0, drains = 0;
  std::int64_t evictions = 0, streamed_steps = 0, preemptions = 0, blocks_in = 0;
  std::int64_t troubles = 0, jumps = 0, pauses = 0, withdrawn = 0, instants = 0;
};

void add_engines(const FleetEnginesReport& report, EnginesSum& sum) {
  const SimulationReport& serving = report.simulation.serving;
  const fleet::FleetCounters& fleet = report.simulation.fleet;
  sum.requests += report.requests;
  sum.finished += report.finished;
  sum.cancelled += report.cancelled;
  sum.errors += report.errors;
  sum.hung += report.hung;
  sum.resumed += fleet.resumed;
  sum.resumed_finished += report.resumed_finished;
  sum.tokens += report.tokens;
  sum.steps += serving.device.steps;
  sum.slices_lost += report.simulation.slices_lost;
  sum.resizes += fleet.resizes;
  sum.withdrawn += fleet.withdrawn;
  sum.loads += fleet.loads;
  sum.loads_lost += fleet.loads_lost;
  sum.unloads += fleet.unloads;
  sum.moves += fleet.moves;
  sum.migrations += fleet.migrations;
  sum.drains += fleet.drains;
  sum.evictions += serving.weights.evictions;
  sum.streamed_steps += serving.device.streamed_steps;
  sum.preemptions += serving.engine.preemptions;
  sum.blocks_in += serving.engine.kv_copies.rotation_in;
  sum.troubles += report.troubles;
  sum.jumps += report.jumps;
  sum.pauses += report.pauses;
  sum.instants += report.instants;
}

void print_engines(const EnginesSum& sum) {
  std::cout << sum.requests << " requests (" << sum.finished << " finished, "
            << sum.resumed_finished << " of them on other slices, " << sum.cancelled
            << " cancelled, " << sum.errors << " errors, " << sum.hung
            << " of them of hanging devices), " << sum.tokens << " tokens, " << sum.steps
            << " steps (" << sum.streamed_steps << " streamed), " << sum.instants << " instants\n  "
            << sum.slices_lost << " slices lost, " << sum.resumed
            << " requests that went on, machines divided anew " << sum.resizes << " times ("
            << sum.withdrawn << " requests withdrawn), " << sum.troubles << " troubles of links, "
            << sum.jumps << " jumps of the clock, " << sum.pauses << " pauses\n  " << sum.loads
            << " loads (" << sum.loads_lost << " lost), " << sum.unloads << " unloads, "
            << sum.drains << " drains, " << sum.moves << " moves, " << sum.migrations
            << " migrations, " << sum.evictions << " evictions, " << sum.preemptions
            << " preemptions, " << sum.blocks_in << " blocks of KV back\n";
}

// A checker that never sees the hard cases proves nothing.
void expect_hard_cases(const EnginesSum& sum, int histories) {
  EXPECT_GT(sum.finished, sum.requests / 2);
  EXPECT_GT(sum.resumed_finished, histories / 4);
  EXPECT_GT(sum.cancelled, histories / 2);
  EXPECT_GT(sum.slices_lost, histories / 2);
  EXPECT_GT(sum.resizes, histories / 4);
  EXPECT_GT(sum.withdrawn, histories / 20);
  EXPECT_GT(sum.loads_lost, histories / 4);
  EXPECT_GT(sum.unloads, histories / 2);
  EXPECT_GT(sum.drains, histories / 20);
  EXPECT_GT(sum.moves, histories / 4);
  EXPECT_GT(sum.evictions, histories / 4);
  EXPECT_GT(sum.streamed_steps, histories / 4);
  EXPECT_GT(sum.preemptions, histories / 10);
  EXPECT_GT(sum.blocks_in, histories / 4);
  EXPECT_GT(sum.troubles, histories / 4);
  EXPECT_GT(sum.jumps, histories / 10);
  EXPECT_GT(sum.pauses, histories / 10);
}

// One history with --gtest_random_seed=N; without, a twentieth of those of one engine.
TEST(FleetEngines, RulesHoldAtEveryInstant) {
  const int only = GTEST_FLAG_GET(random_seed);
  const SeedRange all = seeds_of("CAUSEWAY_ENGINE_HISTORIES", CAUSEWAY_HISTORIES / 20);
  const int first = only != 0 ? only : all.first, last = only != 0 ? only : all.last;
  std::cout << "histories of seeds " << first << " to " << last << "\n";
  std::signal(SIGABRT, report_fleet_seed);
  EnginesSum sum;
  for (int seed = first; seed <= last; ++seed) {
    fleet_seed_running = seed;
    const auto report = run_fleet_engines_history(static_cast<std::uint64_t>(seed));
    ASSERT_EQ(report.failure, "") << "reproduce: simulate_test --gtest_filter='FleetEngines.*' "
                                  << "--gtest_random_seed=" << seed;
    add_engines(report, sum);
  }
  std::signal(SIGABRT, SIG_DFL);
  print_engines(sum);
  if (only == 0 && all.count() >= 500) expect_hard_cases(sum, all.count());
}

TEST(FleetEngines, TheSameSeedGivesTheSameHistory) {
  for (const std::uint64_t seed : {1, 7, 23}) {
    const auto once = run_fleet_engines_history(seed), again = run_fleet_engines_history(seed);
    EXPECT_EQ(to_json(once.simulation), to_json(again.simulation));
    EXPECT_EQ(once.instants, again.instants);
  }
}

}  // namespace
}  // namespace causeway::simulate::fleet_engines_history_test
