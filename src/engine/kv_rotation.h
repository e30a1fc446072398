// Rotates KV between HBM and host memory while an engine runs: answers what the scheduler asks of
// both tiers, hands the cache's copies to the executor, and tells the cache how they ended
// (docs/design/rotation.md). Internal to this room.
//
//   inputs() ─▶ Scheduler::schedule() ─▶ the core applies the decision to the cache
//   add_copies() ─▶ a batch, or begin_copies() where no step starts ─▶ StepExecutor
//   poll() ◀── how copies ended; returns the sequences that are lost
//
// Borrows all that it uses. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "engine/copy_backoff.h"
#include "engine/step_executor.h"
#include "kv/kv_cache.h"
#include "request/batch.h"
#include "schedule/rotation_budget.h"
#include "schedule/rotation_view.h"
#include "schedule/scheduler.h"
#include "weights/expert_cache.h"

namespace causeway::engine {

struct KvRotationOptions {
  Bytes frame;  // of one, > 0
  schedule::BudgetLimits limits = {};
};

// The approximate bytes of experts that a step of a model brings over the link: those that it reads
// at home, and those that are then loaded into slots. A new step counts for an eighth, as with the
// time of steps.
class ExpertTraffic {
 public:
  // `seen`: the cache's, after the step.
  void step_ended(const weights::ExpertCache::Counters& seen, Bytes expert) {
    constexpr std::int64_t kOfOld = 7;
    const std::int64_t read = seen.misses + seen.loads;
    const Bytes bytes = expert * (read - read_);
    read_ = read;
    a_step_ = Bytes((a_step_.count * kOfOld + bytes.count) / (kOfOld + 1));
  }
  Bytes a_step() const { return a_step_; }

 private:
  std::int64_t read_ = 0;
  Bytes a_step_;
};

// Weights that cross the link into HBM beside copies of KV.
struct WeightsIn {
  Bytes arriving = {};  // that are on their way
  // The bytes that a step of a streamed model brings: those of its pass, or the experts that it
  // misses. Zero: no such model has requests.
  Bytes pass = {};
  bool resident = true;  // models whose steps bring nothing have requests
};

class KvRotation final : public schedule::RotationView {
 public:
  // The cache has twins, and the executor rotates.
  KvRotation(const KvRotationOptions& options, kv::KvCache& kv, StepExecutor& executor);

  // Sets the model's rate of prefill for --preemption auto, in tokens per second; 0: not known.
  void set_prefill_rate(ModelId model, double rate) { prefill_rates_[model] = rate; }
  void forget(ModelId model) { prefill_rates_.erase(model); }

  // The facts for one decision.
  schedule::RotationInputs inputs(const WeightsIn& weights, Nanos now);
  // A step of a resident model, or of a streamed one, took so long: updates the expected time of
  // the next.
  void step_took(Nanos time, bool streamed);

  // The copies that may begin now go with the batch, together with what its sequences wait for.
  void add_copies(request::Batch& batch);
  // Begins copies where no step is started.
  void begin_copies();
  // The sequence has been rotated out, and some of it had to be copied.
  void leaves(RequestId sequence) { leaving_.insert(sequence); }
  // The sequence has been opened with so many blocks of its prefix to be copied in. The time that
  // this takes is logged beside the predicted one, now and then.
  void brings(RequestId sequence, std::int64_t copies, Nanos now);
  // Tells the cache how copies have ended. Returns the sequences that failures have lost, which
  // must be computed again.
  std::vector<RequestId> poll(Nanos now);
  // Whether copies are under way that have neither ended nor been given up.
  bool under_way() const { return under_way_ > 0; }
  // Whether copies that were given up have not ended; they may never.
  bool given_up() const { return !given_up_.empty(); }

  // Blocks copied since the start, by KvCopy::Reason.
  const request::KvCopyCounts& counts() const { return counts_; }

  bool may_leave(RequestId sequence) const override;
  bool may_return(RequestId sequence) const override;
  std::int64_t twins_available() const override;
  schedule::RotateOutCost out_cost(RequestId sequence) const override;
  schedule::RotateInCost in_cost(RequestId sequence) const override;
  schedule::PrefixCost prefix_cost(ModelId model, std::span<const TokenId> tokens) const override;
  double prefill_rate(ModelId model) const override;

 private:
  struct Brought {
    std::int64_t copies = 0;
    Nanos began;
    double predicted = 0;  // seconds
  };

  std::vector<kv::KvCopy>& take_copies();
  // How long the decided step is expected to take, including the weights that arrive meanwhile.
  Nanos step(const WeightsIn& weights) const;
  Bytes weights_in(const WeightsIn& weights, Nanos step) const;
  schedule::RotationBudget budget(const kv::KvCopyRates& rates, Bytes weights_in, Nanos step) const;
  void log_brought(Nanos now);
  // Learns which sequences have arrived where they were to go, and which were lost on the way.
  void follow(const std::vector<RequestId>& lost, Nanos now);

  const KvRotationOptions options_;
  kv::KvCache& kv_;
  StepExecutor& executor_;
  Nanos step_;                       // of resident models, expected
  Nanos pass_;                       // of streamed ones; zero: none has ended yet
  std::int64_t copies_out_max_ = 1;  // in a step, including eager ones
  std::int64_t under_way_ = 0;
  std::set<kv::CopyId> out_;  // of those, copies out
  std::map<ModelId, double> prefill_rates_;
  std::map<RequestId, Brought> brought_;
  Nanos log_next_;                 // no line of the log before this
  std::set<kv::CopyId> given_up_;  // that have not ended
  // On their way, as far as they have not ended.
  std::set<RequestId> leaving_, arriving_;
  CopyBackoff backoff_out_, backoff_in_;
  bool rests_ = false;  // copies fail: sequences leave only if they must
  std::vector<kv::KvCopy> copies_;
  request::KvCopyCounts counts_;
};

}  // namespace causeway::engine
