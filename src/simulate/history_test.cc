#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "simulate/testing/history.h"

namespace causeway::simulate::history_test {
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

void add(const HistoryReport& report, HistoryReport& sum) {
  sum.requests += report.requests;
  sum.refused += report.refused;
  sum.finished += report.finished;
  sum.cancelled += report.cancelled;
  sum.errors += report.errors;
  sum.steps += report.steps;
  sum.preemptions += report.preemptions;
  sum.prefix_hit_tokens += report.prefix_hit_tokens;
  sum.rotations += report.rotations;
  sum.kv_copies.eager_out += report.kv_copies.eager_out;
  sum.kv_copies.rotation_out += report.kv_copies.rotation_out;
  sum.kv_copies.rotation_in += report.kv_copies.rotation_in;
  sum.kv_copies.failed += report.kv_copies.failed;
  sum.kv_copies_given_up += report.kv_copies_given_up;
  sum.errors_of_kv_copies += report.errors_of_kv_copies;
  sum.hangs += report.hangs;
  sum.models_replaced += report.models_replaced;
  sum.steps_ahead += report.steps_ahead;
  sum.tokens_pending += report.tokens_pending;
  sum.prompts_scored += report.prompts_scored;
  sum.prompts_embedded += report.prompts_embedded;
  sum.arrivals += report.arrivals;
  sum.evictions += report.evictions;
  sum.copies_failed += report.copies_failed;
  sum.steps_poisoned += report.steps_poisoned;
  sum.errors_of_weights += report.errors_of_weights;
  sum.streamed_steps += report.streamed_steps;
  sum.steps_between_ranges += report.steps_between_ranges;
  sum.steps_abandoned += report.steps_abandoned;
  sum.extents_to_kv += report.extents_to_kv;
  sum.extents_to_weights += report.extents_to_weights;
  sum.extents_failed += report.extents_failed;
  sum.wait_of_bound = std::max(sum.wait_of_bound, report.wait_of_bound);
  sum.steps_of_bound = std::max(sum.steps_of_bound, report.steps_of_bound);
}

void print(const HistoryReport& sum) {
  std::cout << sum.requests << " requests (" << sum.finished << " finished, " << sum.cancelled
            << " cancelled, " << sum.errors << " errors; " << sum.refused << " refused), "
            << sum.steps << " steps (" << sum.steps_ahead << " ahead, with " << sum.tokens_pending
            << " pending tokens), " << sum.preemptions << " preemptions, " << sum.prefix_hit_tokens
            << " prefix tokens found, " << sum.prompts_scored << " prompts scored, " << sum.hangs
            << " hangs, " << sum.models_replaced << " models replaced; at most "
            << sum.steps_of_bound << " of the bound on steps\n"
            << "  weights: " << sum.arrivals << " arrivals, " << sum.evictions << " evictions, "
            << sum.copies_failed << " copies failed, " << sum.steps_poisoned << " steps poisoned, "
            << sum.errors_of_weights << " requests ended by that; at most " << sum.wait_of_bound
            << " of the bound on waits\n"
            << "  streamed: " << sum.streamed_steps << " steps, " << sum.steps_abandoned
            << " abandoned, " << sum.steps_between_ranges << " resident ones beside them\n"
            << "  rotation: " << sum.rotations << " requests to host memory, blocks out "
            << sum.kv_copies.rotation_out << " and early " << sum.kv_copies.eager_out << ", in "
            << sum.kv_copies.rotation_in << ", " << sum.kv_copies.failed << " copies failed, "
            << sum.kv_copies_given_up << " of them given up, " << sum.errors_of_kv_copies
            << " requests ended by that\n"
            << "  border: " << sum.extents_to_kv << " extents to KV, " << sum.extents_to_weights
            << " to weights, " << sum.extents_failed << " failed\n";
}

// A checker that never sees the hard cases proves nothing.
void expect_hard_cases(const HistoryReport& sum, std::int64_t histories) {
  EXPECT_GT(sum.preemptions, histories);
  EXPECT_GT(sum.cancelled, histories / 2);
  EXPECT_GT(sum.errors, histories / 10);
  EXPECT_GT(sum.prefix_hit_tokens, histories);
  EXPECT_GT(sum.models_replaced, histories / 10);
  EXPECT_GT(sum.prompts_scored, histories / 2);
  EXPECT_GT(sum.prompts_embedded, histories / 10);
  EXPECT_GT(sum.hangs, 0);
  EXPECT_GT(sum.evictions, histories / 2);
  EXPECT_GT(sum.copies_failed, histories / 50);
  EXPECT_GT(sum.steps_poisoned, histories / 200);
  EXPECT_GT(sum.streamed_steps, 3 * histories);
  EXPECT_GT(sum.steps_between_ranges, histories);
  EXPECT_GT(sum.steps_abandoned, histories / 100);
  EXPECT_GT(sum.rotations, histories / 2);
  EXPECT_GT(sum.kv_copies.eager_out, histories);
  EXPECT_GT(sum.kv_copies.rotation_out, histories / 10);
  EXPECT_GT(sum.kv_copies.rotation_in, histories / 2);
  EXPECT_GT(sum.kv_copies.failed, histories / 100);
  EXPECT_GT(sum.kv_copies_given_up, histories / 10);
  EXPECT_GT(sum.errors_of_kv_copies, 0);
  EXPECT_GT(sum.extents_to_kv, histories / 10);
  EXPECT_GT(sum.extents_to_weights, histories / 10);
  EXPECT_GE(sum.extents_failed, histories / 10'000);
}

// Requests that nothing befell have the same answer however many steps are in flight.
// Returns how many answers both have.
std::int64_t expect_same_answers(const HistoryReport& one, const HistoryReport& two) {
  std::int64_t compared = 0;
  for (const auto& [request, tokens] : one.answers) {
    const auto same = two.answers.find(request);
    if (same == two.answers.end()) continue;  // failed or cancelled at another time
    EXPECT_EQ(tokens, same->second) << "request " << request;
    ++compared;
  }
  return compared;
}

// One history with --gtest_random_seed=N, all of them without.
TEST(History, InvariantsHoldAfterEveryEvent) {
  const int only = GTEST_FLAG_GET(random_seed);
  const std::uint64_t first = only != 0 ? static_cast<std::uint64_t>(only) : 1;
  const std::uint64_t last = only != 0 ? first : CAUSEWAY_HISTORIES;
  std::cout << "histories of seeds " << first << " to " << last
            << ", each with one and with two steps in flight\n";
  std::signal(SIGABRT, report_seed);
  HistoryReport sums[2];
  std::int64_t answers = 0, compared = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    seed_running = static_cast<std::sig_atomic_t>(seed);
    HistoryReport reports[2];
    for (int i = 0; i < 2; ++i) {
      reports[i] = run_history(seed, i + 1);
      ASSERT_EQ(reports[i].failure, "")
          << i + 1 << " in flight; reproduce: simulate_test --gtest_filter='History.*' "
          << "--gtest_random_seed=" << seed;
      add(reports[i], sums[i]);
    }
    compared += expect_same_answers(reports[0], reports[1]);
    answers += std::ssize(reports[0].answers);
    ASSERT_FALSE(::testing::Test::HasFailure())
        << "reproduce: simulate_test --gtest_filter='History.*' --gtest_random_seed=" << seed;
  }
  std::signal(SIGABRT, SIG_DFL);
  for (const HistoryReport& sum : sums) print(sum);
  if (only != 0) return;
  for (const HistoryReport& sum : sums) {
    expect_hard_cases(sum, static_cast<std::int64_t>(last));
  }
  EXPECT_GT(compared, answers / 2);
  EXPECT_EQ(sums[0].steps_ahead, 0);
  EXPECT_GT(sums[1].steps_ahead, sums[1].steps / 4);
  EXPECT_GT(sums[1].tokens_pending, sums[1].steps / 4);
}

}  // namespace
}  // namespace causeway::simulate::history_test
