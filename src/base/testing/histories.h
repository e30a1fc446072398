// Runs random histories, one for each seed, and counts what they came to. One that breaks a rule,
// also by a failed CHECK, ends them and says how it is repeated.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iostream>

#include "base/testing/seed_range.h"

namespace causeway {

// What a test counts of the reports of its histories.
template <typename Report>
struct Counted {
  const char* what;
  std::int64_t (*of)(const Report& report);
  // A checker that never sees the hard cases proves nothing: more than so many a history.
  double least = -1;
};

// The program and the suite that run histories.
struct HistoryTest {
  const char* program;
  const char* suite;
};

// The one that runs, for the handler of a signal.
struct RunningHistory {
  HistoryTest test = {};
  volatile std::sig_atomic_t seed = 0;
};
inline RunningHistory running_history;

inline void tell_how_to_repeat(int) {
  std::fprintf(stderr, "reproduce: %s --gtest_filter='%s.*' --gtest_random_seed=%d\n",
               running_history.test.program, running_history.test.suite,
               static_cast<int>(running_history.seed));
}

// `run(seed)` answers with a Report, whose `failure` says which rule was broken first; "" for none.
// What was reached is looked at only if there are enough histories.
template <typename Report, std::size_t kCounts, typename Run>
void run_histories(const HistoryTest& test, const SeedRange& seeds,
                   const Counted<Report> (&counted)[kCounts], Run run) {
  constexpr int kEnough = 500;
  std::int64_t sums[kCounts] = {};
  std::cout << "histories of seeds " << seeds.first << " to " << seeds.last << "\n";
  running_history.test = test;
  std::signal(SIGABRT, tell_how_to_repeat);
  for (int seed = seeds.first; seed <= seeds.last; ++seed) {
    running_history.seed = seed;
    const Report report = run(static_cast<std::uint64_t>(seed));
    if (!report.failure.empty()) tell_how_to_repeat(0);
    ASSERT_EQ(report.failure, "") << "seed " << seed;
    for (std::size_t i = 0; i < kCounts; ++i) sums[i] += counted[i].of(report);
  }
  std::signal(SIGABRT, SIG_DFL);
  for (std::size_t i = 0; i < kCounts; ++i) {
    std::cout << "  " << sums[i] << " " << counted[i].what << "\n";
    if (seeds.count() < kEnough) continue;
    EXPECT_GT(static_cast<double>(sums[i]), counted[i].least * seeds.count()) << counted[i].what;
  }
}

}  // namespace causeway
