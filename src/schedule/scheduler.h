// The iteration scheduler: which model's batch runs next, which sequences are in it with how many
// tokens, which are admitted and which are preempted. Continuous batching with chunked prefill;
// prefill chunks and decodes share an iteration.
//
// A state machine: state and `now` in, a Decision out; no clock, no I/O, no threads. It reads the
// KvCache (counts, tables, prefixes) and never changes it: the engine executes the Decision, in the
// order preempted, admitted, runs, and finds that every grow() succeeds.
//
//   add() ─▶ waiting ──admitted──▶ running ──remove()──▶ gone
//               ▲────preempted────────┘       (computed = 0: recomputed on return)
//
// Rules, in terms of the policy's order (policy.h), which spans all models:
// - A step runs one model's batch: of the models that have anything to run, the one with the
//   largest lag, the time since it was last stepped (docs/decisions/0013-models-are-interleaved.md;
//   SuperInfer's idle requests with β_B = 0). So a model with n competitors waits n steps at most.
// - Every running sequence of that model gets a token's worth of the step's budget, the rest goes
//   to prefill, most urgent first.
// - A step has at most running_max rows of logits. Each running sequence has one. Half of
//   the others are for the chunks of sequences whose prompts are scored.
// - A sequence that lacks a frame displaces the least urgent running sequences, of any model, that
//   are less urgent than itself; when those do not suffice it stalls. The most urgent running
//   sequence therefore always progresses.
// - Admission is over-committed: it asks that the tokens known now fit beside what running
//   sequences still need for theirs, never for the output to come. It stops at the first that does
//   not fit, and leaves room for more urgent ones waiting for other models: none is overtaken for
//   being large.
//
// One step ahead: a decision may be made while the step decided before it is in flight. What that
// step computes counts as computed, what it samples as known, though it is unknown which token it
// is; a sequence whose last token it samples has nothing more to run. Such a decision never
// preempts, since the frames of those in flight could not be used yet: a sequence that would have
// to displace another is passed over, and the next decision is put off until nothing is in flight.
//
// Steps of streamed models take long and go beside the others: they do not count as in flight for
// that, and what they compute is not preempted.
//
// Rotation (docs/design/rotary.md): with another policy than fcfs and priority, or another
// preemption than recompute, sequences have a third state, and decisions follow largest lag first
// within budgets (SuperInfer §4). Victims are then taken ahead, too, and never for frames that the
// same decision uses, so that two steps stay in flight.
//
//   running ──rotated_out──▶ rotary ──rotated_in──▶ running
//   lost(): rotary, running ─▶ waiting
//
// Cost: O(running sequences of the chosen model + changes × log waiting) an iteration; waiting
// sequences are kept in heaps, and buffers are reused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kv/kv_cache.h"
#include "request/request.h"
#include "schedule/chunk_controller.h"
#include "schedule/policy.h"
#include "schedule/rotation_budget.h"
#include "schedule/rotation_policy.h"
#include "schedule/rotation_view.h"

namespace causeway::schedule {

struct Options {
  PolicyKind policy = PolicyKind::kFcfs;
  PreemptionKind preemption = PreemptionKind::kRecompute;
  std::int64_t tokens_per_step_max = 2048;  // prefill and decode together
  std::int64_t running_max = 256;           // sequences holding frames, all models together
  ChunkOptions chunk = {};                  // how many of those a step with prompts has
  RotationPolicyOptions rotation = {};

  // With recompute and kFcfs or kPriority everything is as without rotation.
  bool rotates() const {
    return preemption != PreemptionKind::kRecompute ||
           (policy != PolicyKind::kFcfs && policy != PolicyKind::kPriority);
  }
};

// The facts that a decision with rotation needs beside the cache. All of them may be missing: then
// victims are recomputed, and only growth makes victims.
struct RotationInputs {
  const RotationView* view = nullptr;  // KV in two tiers; null: there is one only
  RotationBudget budget;               // of this iteration (rotation_budget())
  CostRates rates;                     // for PreemptionKind::kAuto
};

// A sequence within the scheduler; reused after remove().
using Handle = Id<struct HandleTag>;

struct NewSequence {
  RequestId request;
  ModelId model;
  // Prompt and output so far, borrowed until remove(). Only step_done() may announce more tokens.
  const std::vector<TokenId>* tokens = nullptr;
  request::Slo slo;
  std::int32_t priority = 0;
  Nanos arrival;
  Tokens length_max = Tokens(INT64_MAX);  // prompt and output: the last token is never computed
  // The length of the answer, for policies that use it; 0: as long as it may be.
  Tokens output_truth{0};
  // Each row of its prompt chunks has logits, and none may be skipped: no prefix is looked up, and
  // a chunk has no more tokens than the step has spare rows of logits.
  bool scores = false;
};

struct Run {
  Handle sequence;
  RequestId request;
  Tokens context;        // computed before
  Tokens tokens;         // computed by this step, ≥ 1
  bool samples = false;  // the step computes the last known token
};

struct Preemption {
  Handle sequence;
  RequestId request;
};

// A sequence that moves to host memory, or back; what is computed by then stays valid.
struct Rotation {
  Handle sequence;
  RequestId request;
};

struct Admission {
  Handle sequence;
  RequestId request;
  Tokens cached;  // KvCache::open() will return this
  // A part of it comes from host memory: call open_with_twins(). At most one of a decision.
  bool brings = false;
};

// Executed in this order. The admission that brings a prefix comes after the others, because it may
// evict what these find in the cache, and so may sequences that rotate in. Sequences that rotate
// out come after them, because the twins that they take may be those of that prefix.
struct Decision {
  // Invalid: nothing to run. With rotation some sequences may still have to leave; then ask again
  // when they have left.
  ModelId model;
  std::vector<Preemption> preempted;  // with rotation a step may use them
  std::vector<Admission> admitted;    // all of `model`
  std::vector<Rotation> rotated_out;  // a step in flight may compute them
  std::vector<Rotation> rotated_in;   // all of `model`; they run
  std::vector<Run> runs;              // in the order in which they get prompt tokens

  bool empty() const { return !model.valid() && preempted.empty() && rotated_out.empty(); }
};

// The frames that the known tokens want.
struct FramesWanted {
  // The frames that running sequences want beyond those they hold, including those for as many
  // waiting sequences as may run beside them. Prefixes that these would find in the cache are not
  // subtracted.
  std::int64_t more = 0;
  std::int64_t largest = 0;  // what one sequence needs, running or waiting
};

class Scheduler {
 public:
  explicit Scheduler(const Options& options);
  Scheduler(const Options& options, std::unique_ptr<Policy> policy);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `streamed`: its steps run beside those of the other models. `alpha`: within its range.
  void add_model(ModelId model, Tokens tokens_per_block, bool streamed = false,
                 double alpha = kAlphaDefault);
  // Sets how long the model's steps are expected to take before one has been measured. For
  // ChunkOptions::automatic; without it the model's chunk is fixed.
  void set_step_cost(ModelId model, const StepCost& cost);
  // No sequence of the model may be left.
  void remove_model(ModelId model);

  // The sequence must fit the cache when alone, which the engine checks when a request arrives. A
  // cache that can grow may have to grow first, and until then possibly nothing runs.
  Handle add(const NewSequence& sequence);
  // Removes a sequence in any state; the caller releases its frames and twins.
  void remove(Handle sequence);
  // A sequence that runs, or is in host memory, waits again and is computed from its start. True:
  // what steps in flight sample for it does not count. The caller releases its frames.
  bool restart(Handle sequence);
  // As above, because a copy of its KV failed. Only with rotation.
  bool lost(Handle sequence);

  // A held sequence is passed over in any state, because its possible next tokens are not known
  // yet. It is held from the decision that samples it, before the next decision is made. While all
  // running sequences of a model are held and a step of it is in flight, none is decided ahead, so
  // that they stay in one batch.
  void hold(Handle sequence, bool held);

  // Which models may be stepped now; asked for models with sequences, the longest unstepped first,
  // until one can run. Empty: all may.
  using ModelFilter = std::function<bool(ModelId)>;
  // Decides the next iteration and assumes that it is executed. Streamed models are passed over
  // while a streamed step is in flight, the others while two of theirs are. When there is nothing
  // to run, ask again after a step has ended.
  void schedule(Nanos now, const kv::KvCache& kv, Decision& decision,
                const ModelFilter& may_step = {}, const RotationInputs& rotation = {});
  // Decides that all running sequences wait again, to be recomputed, and nothing else. No step may
  // be in flight.
  void preempt_all(Decision& decision);
  // The most tokens that the model's next step would compute.
  Tokens tokens_wanted(ModelId model, Nanos now) const;
  // Looks at no more sequences than may run.
  FramesWanted frames_wanted(const kv::KvCache& kv) const;
  // The runs of the oldest decision in flight have been computed. The caller appends the tokens of
  // those that sample, or removes the sequence. `took`: the device's time; zero: unknown.
  void step_done(const Decision& decision, Nanos now, Nanos took = Nanos(0));
  // The oldest step in flight failed: nothing was computed. The caller removes its sequences.
  void step_failed(const Decision& decision, Nanos now);

  // Whether the decision gives each sequence its next token and does nothing else, and the next
  // decisions would be the same until a request arrives or ends, or frames are lacking. For callers
  // that take several steps at once.
  bool only_decodes(const Decision& decision) const;
  // The same of the decisions in flight for two models, one each, which then alternate: A and B
  // are followed by B, A, A, B, B and so on. Of two models of which one runs and the other's step
  // has just ended, the latter was stepped last.
  bool alternate(const Decision& first, const Decision& second) const;
  // Whether a decision depends on the time at which it is made.
  bool varies_with_time() const;
  // Has the effect of `times` more steps like this one, which is in flight, the last of them ending
  // at `last_end`. The caller appends the tokens.
  void repeat_step(const Decision& decision, std::int64_t times, Nanos last_end);
  // How many tokens of a prompt a step may have that has nothing else.
  Tokens prompt_tokens_max() const;
  // Has the effect of a sequence that came, was alone in so many steps and has gone.
  void ran_alone(ModelId model, std::int64_t steps, Nanos last_end);

  // The number of sequences in any state.
  std::int64_t sequences() const { return waiting() + running() + rotary(); }
  std::int64_t sequences(ModelId model) const {
    return waiting(model) + running(model) + rotary(model);
  }
  std::int64_t waiting() const;
  std::int64_t running() const;
  std::int64_t rotary() const;
  std::int64_t waiting(ModelId model) const;
  std::int64_t running(ModelId model) const;
  std::int64_t rotary(ModelId model) const;

  // Checks that its own state of running sequences and their frames equals the cache's tables, and
  // that all orders and sums are right.
  Status check_integrity(const kv::KvCache& kv) const;

  class State;  // internal to this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::schedule
