#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "simulate/testing/history.h"

namespace causeway::simulate {
namespace {

#ifndef CAUSEWAY_HISTORIES
#error "the build states how many histories are tested"
#endif

// A failed CHECK aborts: say which history it was.
volatile std::sig_atomic_t seed_running = 0;
void report_seed(int) {
  std::fprintf(stderr, "reproduce: simulate_test --gtest_filter='History.*' %s%d\n",
               "--gtest_random_seed=", static_cast<int>(seed_running));
}

// One history with --gtest_random_seed=N, all of them without.
TEST(History, InvariantsHoldAfterEveryEvent) {
  const int only = GTEST_FLAG_GET(random_seed);
  const std::uint64_t first = only != 0 ? static_cast<std::uint64_t>(only) : 1;
  const std::uint64_t last = only != 0 ? first : CAUSEWAY_HISTORIES;
  std::cout << "histories of seeds " << first << " to " << last << "\n";
  std::signal(SIGABRT, report_seed);
  HistoryReport sum;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    seed_running = static_cast<std::sig_atomic_t>(seed);
    const HistoryReport report = run_history(seed);
    ASSERT_EQ(report.failure, "") << "reproduce: simulate_test --gtest_filter='History.*' "
                                  << "--gtest_random_seed=" << seed;
    sum.requests += report.requests;
    sum.refused += report.refused;
    sum.finished += report.finished;
    sum.cancelled += report.cancelled;
    sum.errors += report.errors;
    sum.steps += report.steps;
    sum.preemptions += report.preemptions;
    sum.prefix_hit_tokens += report.prefix_hit_tokens;
    sum.hangs += report.hangs;
    sum.models_replaced += report.models_replaced;
    sum.steps_of_bound = std::max(sum.steps_of_bound, report.steps_of_bound);
  }
  std::signal(SIGABRT, SIG_DFL);
  std::cout << sum.requests << " requests (" << sum.finished << " finished, " << sum.cancelled
            << " cancelled, " << sum.errors << " errors; " << sum.refused << " refused), "
            << sum.steps << " steps, " << sum.preemptions << " preemptions, "
            << sum.prefix_hit_tokens << " prefix tokens found, " << sum.hangs << " hangs, "
            << sum.models_replaced << " models replaced; at most " << sum.steps_of_bound
            << " of the bound on steps\n";
  if (only != 0) return;
  // A checker that never sees the hard cases proves nothing.
  EXPECT_GT(sum.preemptions, static_cast<std::int64_t>(last));
  EXPECT_GT(sum.cancelled, static_cast<std::int64_t>(last) / 2);
  EXPECT_GT(sum.errors, static_cast<std::int64_t>(last) / 10);
  EXPECT_GT(sum.prefix_hit_tokens, static_cast<std::int64_t>(last));
  EXPECT_GT(sum.models_replaced, static_cast<std::int64_t>(last) / 10);
  EXPECT_GT(sum.hangs, 0);
}

}  // namespace
}  // namespace causeway::simulate
