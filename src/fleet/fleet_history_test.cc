#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "base/testing/rounds.h"
#include "base/testing/seed_range.h"
#include "fleet/testing/fleet_history.h"

namespace causeway::fleet::fleet_history_test {
namespace {

// A failed CHECK aborts: say which history it was.
volatile std::sig_atomic_t seed_running = 0;
void report_seed(int) {
  std::fprintf(stderr, "reproduce: fleet_test --gtest_filter='FleetHistory.*' %s%d\n",
               "--gtest_random_seed=", static_cast<int>(seed_running));
}

void add_asks(const testing::FleetHistoryReport& report, testing::FleetHistoryReport& sum) {
  sum.asks += report.asks;
  sum.asks_refused += report.asks_refused;
  sum.loaded_asked += report.loaded_asked;
  sum.unloaded_asked += report.unloaded_asked;
  sum.slept += report.slept;
  sum.slept_behind += report.slept_behind;
  sum.slept_aborting += report.slept_aborting;
  sum.reloads += report.reloads;
  sum.found += report.found;
  sum.gone_kept += report.gone_kept;
  sum.counters.removed += report.counters.removed;
}

void add_losses(const testing::FleetHistoryReport& report, testing::FleetHistoryReport& sum) {
  sum.slices_lost += report.slices_lost;
  sum.strikes += report.strikes;
  sum.suspects_ended += report.suspects_ended;
  sum.waited_long += report.waited_long;
  sum.counters.migrations += report.counters.migrations;
  sum.given_back += report.given_back;
}

void expect_losses(const testing::FleetHistoryReport& sum, int histories) {
  std::cout << sum.strikes << " slices lost by a request, " << sum.suspects_ended
            << " requests suspected too often, " << sum.waited_long
            << " moves of who waited in more slices than that; " << sum.counters.migrations
            << " models migrated, " << sum.given_back << " requests given back for that\n";
  EXPECT_GT(sum.counters.migrations, histories / 100);
  EXPECT_GT(sum.given_back, histories / 100);
  EXPECT_GT(sum.strikes, histories / 10);
  EXPECT_GT(sum.suspects_ended, histories / 10);
  EXPECT_GT(sum.waited_long, histories / 10);
}

// Of as many histories.
void expect_asks(const testing::FleetHistoryReport& sum, int histories) {
  std::cout << sum.asks << " asks (" << sum.asks_refused << " refused, " << sum.loaded_asked
            << " models loaded, " << sum.unloaded_asked << " unloaded, " << sum.slept
            << " times all, " << sum.slept_behind << " of these behind requests, "
            << sum.slept_aborting << " by cancelling), " << sum.reloads << " catalogues read ("
            << sum.found << " models found, " << sum.counters.removed << " removed, "
            << sum.gone_kept << " kept)\n";
  EXPECT_GT(sum.loaded_asked, histories / 10);
  EXPECT_GT(sum.unloaded_asked, histories / 10);
  EXPECT_GT(sum.slept, histories / 10);
  EXPECT_GT(sum.slept_behind, histories / 100);
  EXPECT_GT(sum.slept_aborting, histories / 100);
  EXPECT_GT(sum.found, histories / 10);
  EXPECT_GT(sum.counters.removed, histories / 10);
  EXPECT_GT(sum.gone_kept, histories / 10);
}

// One history with --gtest_random_seed=N, all of them without.
TEST(FleetHistory, RulesHoldAfterEveryEvent) {
  const int only = GTEST_FLAG_GET(random_seed);
  const SeedRange all = seeds_of("CAUSEWAY_FLEET_HISTORIES", rounds(5000));
  const int first = only != 0 ? only : all.first, last = only != 0 ? only : all.last;
  std::cout << "histories of seeds " << first << " to " << last << "\n";
  std::signal(SIGABRT, report_seed);
  testing::FleetHistoryReport sum;
  for (int seed = first; seed <= last; ++seed) {
    seed_running = seed;
    const auto report = testing::run_fleet_history(static_cast<std::uint64_t>(seed));
    ASSERT_EQ(report.failure, "") << "reproduce: fleet_test --gtest_filter='FleetHistory.*' "
                                  << "--gtest_random_seed=" << seed;
    sum.requests += report.requests;
    sum.cancelled += report.cancelled;
    sum.loads_failed += report.loads_failed;
    sum.kept += report.kept;
    sum.drops += report.drops;
    sum.ended_late += report.ended_late;
    sum.stalls += report.stalls;
    sum.counters.routed += report.counters.routed;
    sum.counters.resumed += report.counters.resumed;
    sum.counters.refused += report.counters.refused;
    sum.counters.loads += report.counters.loads;
    sum.counters.loads_lost += report.counters.loads_lost;
    sum.counters.unloads += report.counters.unloads;
    sum.counters.drains += report.counters.drains;
    sum.counters.best_effort += report.counters.best_effort;
    sum.counters.moves += report.counters.moves;
    sum.counters.resizes += report.counters.resizes;
    sum.counters.withdrawn += report.counters.withdrawn;
    sum.opened_none += report.opened_none;
    add_asks(report, sum);
    add_losses(report, sum);
  }
  std::signal(SIGABRT, SIG_DFL);
  std::cout << sum.requests << " requests (" << sum.counters.routed << " routed, "
            << sum.counters.refused << " refused, " << sum.cancelled << " cancelled while held), "
            << sum.counters.loads << " loads (" << sum.loads_failed << " failed, "
            << sum.counters.loads_lost << " lost), " << sum.counters.unloads << " unloads ("
            << sum.kept << " did not let go), " << sum.drops << " drops, " << sum.counters.drains
            << " drains, " << sum.counters.best_effort << " best effort, " << sum.counters.moves
            << " moves, " << sum.slices_lost << " slices lost, " << sum.counters.resumed
            << " requests that went on, " << sum.ended_late << " that had ended, " << sum.stalls
            << " stalls, slices changed " << sum.counters.resizes << " times ("
            << sum.counters.withdrawn << " requests withdrawn, " << sum.opened_none
            << " times none opened)\n";
  if (only != 0) return;
  // A checker that never sees the hard cases proves nothing.
  const int histories = all.count();
  EXPECT_GT(sum.counters.routed, 5 * histories);
  EXPECT_GT(sum.counters.refused, histories);
  EXPECT_GT(sum.cancelled, histories / 2);
  EXPECT_GT(sum.loads_failed, histories / 10);
  EXPECT_GT(sum.kept, histories / 20);
  EXPECT_GT(sum.counters.unloads, histories / 2);
  EXPECT_GT(sum.counters.loads_lost, histories / 10);
  EXPECT_GT(sum.counters.drains, histories / 10);
  EXPECT_GT(sum.counters.best_effort, histories / 10);
  EXPECT_GT(sum.counters.moves, histories / 10);
  EXPECT_GT(sum.drops, histories / 20);
  EXPECT_GT(sum.counters.resumed, histories / 10);
  EXPECT_GT(sum.ended_late, histories / 100);
  EXPECT_GT(sum.stalls, histories / 10);
  EXPECT_GT(sum.counters.resizes, histories / 4);
  EXPECT_GT(sum.counters.withdrawn, histories / 10);
  EXPECT_GT(sum.opened_none, histories / 100);
  expect_asks(sum, histories);
  expect_losses(sum, histories);
}

}  // namespace
}  // namespace causeway::fleet::fleet_history_test
