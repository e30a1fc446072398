// A scheduler that rotates, with a real KvCache, simple twins and the smallest engine that keeps
// one or two steps in flight, for tests and benchmarks of rotation. It executes decisions in their
// order, and CHECKs everything that the scheduler promises.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "kv/kv_cache.h"
#include "schedule/scheduler.h"
#include "schedule/testing/twin_books.h"

namespace causeway::schedule {

struct RotaryOptions {
  Options schedule;
  std::int64_t frames = 64;
  std::int64_t twins = 1'000;
  bool eager = true;
  RotationBudget budget{.out = 8, .in = 8, .exchange = 3};
  int steps_in_flight = 2;
};

struct RotarySequence {
  std::int64_t id = 0;
  ModelId model = {};
  std::int64_t prompt = 4;
  std::int64_t output = 4;
  Nanos arrival = {};
  request::Slo slo = {};
  std::int32_t priority = 0;
};

class RotaryHarness {
 public:
  explicit RotaryHarness(const RotaryOptions& options);

  void add_model(ModelId model, std::int64_t tokens_per_block, double alpha = kAlphaDefault);
  void add(const RotarySequence& sequence);
  void remove(std::int64_t id);
  // The copies of a sequence that is outside, or arriving, have failed.
  void lose(std::int64_t id);

  // Decides and executes a step. False: nothing runs.
  bool start(Nanos now);
  // The same in two parts, to measure the first alone.
  void decide(Nanos now) { scheduler_.schedule(now, kv_, decision_, {}, inputs()); }
  bool execute();
  // The oldest step ends; sequences that have all their tokens leave.
  void finish(Nanos now);
  // Starts steps until as many are in flight as allowed, then finishes one. False: no request is
  // left, or (a failure of a test) nothing can run.
  bool round(Nanos now);
  RotationInputs inputs() const {
    return {.view = with_twins_ ? &twins_ : nullptr, .budget = budget, .rates = rates};
  }

  const Decision& decision() const { return decision_; }
  Scheduler& scheduler() { return scheduler_; }
  const kv::KvCache& kv() const { return kv_; }
  const TwinBooks& twins() const { return twins_; }
  // For PreemptionKind::kAuto, beside `rates`.
  void set_prefill_rate(ModelId model, double rate) { twins_.set_prefill_rate(model, rate); }
  std::size_t in_flight() const { return in_flight_.size(); }
  // The step that finish() will end.
  const Decision& oldest() const { return in_flight_.front().decision; }
  bool has(std::int64_t id) const { return sequences_.contains(RequestId(id)); }
  std::int64_t left() const { return std::ssize(sequences_); }
  std::int64_t ended() const { return ended_; }
  const Run* run_of(std::int64_t id) const;
  Status check() const;

  RotationBudget budget;
  CostRates rates;

  struct Counters {
    std::int64_t copies_in = 0;
    std::int64_t copies_out = 0;
    std::int64_t recomputed = 0;  // tokens, of those that were preempted
    std::int64_t steps = 0;
    std::int64_t rotations = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Sequence {
    ModelId model;
    std::vector<TokenId> tokens;
    std::size_t length_max = 0;
    Handle handle;
    std::int64_t computed = 0;
    bool voided = false;
  };
  struct Step {
    StepId id;
    Decision decision;
  };
  // The last step in flight that computes the sequence; an invalid id: none.
  StepId last_user(RequestId sequence) const;

  kv::KvCache kv_;
  TwinBooks twins_;
  const bool with_twins_;
  const std::size_t steps_in_flight_;
  Scheduler scheduler_;
  Decision decision_;
  std::map<RequestId, Sequence> sequences_;
  std::deque<Step> in_flight_;
  std::int64_t ended_ = 0;
  Counters counters_;
};

}  // namespace causeway::schedule
