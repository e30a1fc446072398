// Turns KV between HBM and host memory while an engine runs: answers what the scheduler asks of
// both tiers, hands the cache's copies to the executor, and tells the cache how they ended
// (docs/design/rotation.md). Internal to this room.
//
//   inputs() ─▶ Scheduler::schedule() ─▶ the core applies the decision to the cache
//   add_copies() ─▶ a batch, or begin_copies() where no step starts ─▶ StepExecutor
//   poll() ◀── how copies ended; returns who is lost
//
// Borrows all that it uses. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "engine/copy_backoff.h"
#include "engine/step_executor.h"
#include "kv/kv_cache.h"
#include "request/batch.h"
#include "schedule/rotation_budget.h"
#include "schedule/rotation_view.h"
#include "schedule/scheduler.h"

namespace causeway::engine {

struct KvRotationOptions {
  Bytes frame;  // of one, > 0
  schedule::BudgetLimits limits = {};
};

class KvRotation final : public schedule::RotationView {
 public:
  // The cache has twins, and the executor rotates.
  KvRotation(const KvRotationOptions& options, kv::KvCache& kv, StepExecutor& executor);

  // For one decision. `prefill_rate`: tokens per second, for --preemption auto. `weights_in`: bytes
  // of weights that cross the link into HBM meanwhile.
  schedule::RotationInputs inputs(double prefill_rate, Bytes weights_in, Nanos now);
  // A resident model's step computed for so long: what the next one is expected to take.
  void step_took(Nanos time);

  // The copies that may begin now go with the batch; then also what its sequences wait for.
  void add_copies(request::Batch& batch);
  // The same where no step is started.
  void begin_copies();
  // The sequence has been rotated out, and some of it had to be copied.
  void leaves(RequestId sequence) { leaving_.insert(sequence); }
  // Tells the cache how copies have ended. Returns the sequences that are lost by failures: to be
  // computed again.
  std::vector<RequestId> poll(Nanos now);
  // Copies have been begun that have neither ended nor been given up.
  bool under_way() const { return under_way_ > 0; }
  // Some were given up and have not ended: they may never.
  bool given_up() const { return !given_up_.empty(); }

  // Blocks copied since the start, by KvCopy::Reason.
  const request::KvCopyCounts& counts() const { return counts_; }

  bool may_leave(RequestId sequence) const override;
  bool may_return(RequestId sequence) const override;
  std::int64_t twins_available() const override;
  schedule::RotateOutCost out_cost(RequestId sequence) const override;
  schedule::RotateInCost in_cost(RequestId sequence) const override;
  schedule::PrefixCost prefix_cost(ModelId model, std::span<const TokenId> tokens) const override;

 private:
  std::vector<kv::KvCopy>& take_copies();
  schedule::RotationBudget budget(const kv::KvCopyRates& rates, Bytes weights_in) const;
  // Learns who has come where it was to go, and who was lost on its way.
  void follow(const std::vector<RequestId>& lost, Nanos now);

  const KvRotationOptions options_;
  kv::KvCache& kv_;
  StepExecutor& executor_;
  Nanos step_;                       // expected
  std::int64_t copies_out_max_ = 1;  // in a step, eager ones among them
  std::int64_t under_way_ = 0;
  std::set<kv::CopyId> given_up_;  // that have not ended
  // On their way, as far as they have not ended.
  std::set<RequestId> leaving_, arriving_;
  CopyBackoff backoff_out_, backoff_in_;
  bool rests_ = false;  // copies fail: who need not go stays, and who must is computed again
  std::vector<kv::KvCopy> copies_;
  request::KvCopyCounts counts_;
};

}  // namespace causeway::engine
