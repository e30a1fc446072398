// Random histories of an engine in virtual time, and the checks that must hold throughout: the
// tests' main weapon against scheduler, engine and KV bookkeeping.
//
// From its seed a history draws a slice (tiny memory, whose border between KV and weights may move,
// one to three models, a policy, budgets, fault rates) and a workload (arrivals, shared prefixes,
// cancellations, models removed and added again), and drives an EngineCore over a SimulatedExecutor
// whose tokens depend on what the frames hold. Checked after every event:
// EngineCore::check_integrity, the shadow KV's rules, every token against the one that the
// sequence's own tokens lead to, exactly one finished output a request, and for the right reason.
// Once arrivals stop, at most
//
//   2 × models × Σ over the requests left (prompt + max_tokens) + 2
//
// steps are started until everything has ended and every frame is free or cached.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "request/batch.h"

namespace causeway::simulate {

struct HistoryReport {
  std::string failure;  // empty: all checks held
  std::int64_t requests = 0;
  std::int64_t refused = 0;
  std::int64_t finished = 0;
  std::int64_t cancelled = 0;
  std::int64_t errors = 0;
  std::int64_t steps = 0;
  std::int64_t preemptions = 0;
  std::int64_t prefix_hit_tokens = 0;
  std::int64_t rotations = 0;
  request::KvCopyCounts kv_copies;
  std::int64_t kv_copies_given_up = 0;
  std::int64_t errors_of_kv_copies = 0;  // of requests that needed what these hold
  std::int64_t hangs = 0;
  std::int64_t models_replaced = 0;
  std::int64_t steps_ahead = 0;     // started while another ran
  std::int64_t tokens_pending = 0;  // that those computed
  std::int64_t prompts_scored = 0;  // whose log-probabilities came, each token's checked
  std::int64_t prompts_embedded = 0;
  // Answers of the requests that ended well.
  std::map<std::int64_t, std::vector<TokenId>> answers;
  std::int64_t arrivals = 0;           // of weights, begun
  std::int64_t evictions = 0;          // of weights
  std::int64_t copies_failed = 0;      // of weights
  std::int64_t steps_poisoned = 0;     // that read what did not arrive
  std::int64_t errors_of_weights = 0;  // of requests
  std::int64_t streamed_steps = 0;
  std::int64_t steps_between_ranges = 0;  // of resident models, beside a streamed step
  std::int64_t steps_abandoned = 0;       // streamed ones that failed on their way
  std::int64_t extents_to_kv = 0;
  std::int64_t extents_to_weights = 0;
  std::int64_t extents_failed = 0;  // of KV: there was no memory
  double wait_of_bound = 0;         // the longest for weights, as a part of the bound
  double steps_of_bound = 0;        // the steps after the last arrival, as a part of the bound
};

// With one or two steps in flight; the history is the same otherwise.
HistoryReport run_history(std::uint64_t seed, int steps_in_flight);

}  // namespace causeway::simulate
