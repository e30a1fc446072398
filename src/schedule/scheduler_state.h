// The state of the scheduler between iterations. Internal to this room.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "schedule/chunk_controller.h"
#include "schedule/future_peak.h"
#include "schedule/policy.h"
#include "schedule/scheduler.h"
#include "schedule/sequence_table.h"
#include "schedule/urgency_heaps.h"

namespace causeway::schedule {

// How often the first in line is passed over before its prefix is looked up again, although it
// still lacks as much (the cache may hold more of it by then).
inline constexpr int kBlockedSkipsMax = 16;

struct ModelQueue {
  ModelId id;  // invalid: removed, the place may be reused
  std::int64_t tokens_per_block = 1;
  WaitingHeap waiting;
  RunningList running;
  Nanos last_step;                   // when its last step ended
  std::int64_t last_step_index = 0;  // breaks ties in time
  bool streamed = false;             // its steps are in the other lane
  int in_flight = 0;                 // steps of it in flight
  bool listed = false;               // in Scheduler::State::listed
  // The head that last found no room; kept so that its prefix is not hashed in every iteration.
  RequestId blocked_head;
  std::int64_t blocked_room = 0;
  int blocked_skips = 0;

  // For ChunkOptions::automatic, once the costs of the model's steps are known.
  std::optional<ChunkController> chunk;
  Nanos step_took;  // the last step that was measured

  // How many sequences outside HBM need so many frames for what they know.
  std::map<std::int64_t, std::int64_t> outside_frames;

  // For rotation, which does not use `waiting`.
  double alpha = kAlphaDefault;
  UrgencyHeaps ranked_waiting;
  UrgencyHeaps ranked_rotary;
  std::int64_t waiting_count = 0;  // includes settling ones; also without rotation
  std::int64_t rotary_count = 0;
  std::int64_t backlog = 0;         // tokens that its running sequences must compute
  std::int64_t backlog_scored = 0;  // of these, those of sequences with scored prompts
  // How many running sequences may wait so long for their next token before they lag.
  std::map<Nanos, std::int64_t> slacks;
  std::int64_t blocked_need = 0;  // frames that blocked_head was found to need

  bool outside_empty() const { return waiting_count + rotary_count == 0; }
  // Calls visit(SlotIndex) until it returns false, in no particular order; settling sequences are
  // left out.
  template <typename Visit>
  void each_outside(Visit visit) const {
    for (const SlotIndex index : waiting.members()) {
      if (!visit(index)) return;
    }
    bool go_on = true;
    for (const UrgencyHeaps* heaps : {&ranked_waiting, &ranked_rotary}) {
      if (go_on) heaps->each([&](const Ranked& member) { return go_on = visit(member.index); });
    }
  }

  std::int64_t frames_for(Tokens tokens) const {
    return (tokens.count + tokens_per_block - 1) / tokens_per_block;
  }
};

// The largest lag outside HBM among those that can come in; null: there are none.
const Ranked* leader_of(const ModelQueue& queue, Nanos now);
// How long the sequence may wait in HBM for its next token before it lags: max(β_B, ½)·S_B. Serving
// it needs no copies, so it need not be early.
Nanos idle_slack_of(const SequenceFacts& facts);

// The number of frames that means "no bound" to step_budget().
inline constexpr std::int64_t kAnyFrames = std::int64_t{1} << 60;

// How many rows of a step's logits scored prompts may take beside one for each sequence: half of
// the free ones, so that others can still come in.
inline std::int64_t spare_logit_rows(std::int64_t running_max, std::int64_t running) {
  return std::max<std::int64_t>(0, running_max - running) / 2;
}

// How many frames an admission leaves free for the sequences that run.
inline std::int64_t spare_frames(const kv::KvCache& kv) { return 1 + kv.frames() / 100; }

// The number of running sequences whose tables list each frame, which tells what a preemption would
// free.
class FrameReferences {
 public:
  void reset(std::int64_t frames);
  void add(std::span<const FrameId> table);
  // The frames that no table lists any more, and that will be free then.
  std::int64_t drop(std::span<const FrameId> table, const kv::KvCache& kv);

 private:
  std::vector<std::int32_t> counts_;
};

class Scheduler::State {
 public:
  State(const Options& options_in, std::unique_ptr<Policy> policy_in);

  ModelQueue& queue_of(ModelId model);
  const ModelQueue& queue_of(ModelId model) const;
  ModelQueue& queue_of(const Slot& slot) { return queues[static_cast<std::size_t>(slot.model)]; }

  // Updates slot.promised, and with rotation the tokens owed, to its tokens and frames.
  void update_promise(ModelQueue& queue, Slot& slot);
  // Adds a sequence to the orders and sums of those outside HBM, by the state in its facts; removes
  // it from them.
  void enter_outside(SlotIndex index);
  void leave_outside(SlotIndex index);
  // The same for running sequences; with rotation it fixes a sequence's place in their order. A
  // sequence leaves with all that was counted as promised and owed.
  void enter_running(SlotIndex index);
  void leave_running(SlotIndex index);
  // With rotation: adds a sequence to the heaps of its model, or removes it.
  void rank(SlotIndex index);
  void unrank(SlotIndex index);
  // Ranks sequences again whose first token has become late, as far as they would lead. They fall
  // back by it, so that the leader is the one that it would be if all of them had been ranked.
  void rank_late(UrgencyHeaps& heaps, Nanos now);
  // Ranks settling sequences whose steps and copies have ended meanwhile.
  void settle(const RotationView* view);
  // The lag of a running sequence (docs/design/rotary.md); below 0: it may leave.
  double running_lag(const Slot& slot, Nanos now) const;
  // The largest lag of a model's running sequences: how late their next token is.
  double idle_lag(const ModelQueue& queue, Nanos now) const;
  // Lists the model at `place`, whose queue has sequences.
  void list(std::int32_t place);
  // Removes models without sequences from the list.
  void unlist();
  // Asks the policy again for the urgency of every sequence.
  void refresh_urgencies(Nanos now);
  void set_urgency(Slot& slot, Nanos now);
  // Updates a sequence that was taken off its running list and the totals.
  void wait_again(SlotIndex index);
  void end_step(const Decision& decision, Nanos now);

  // step_budget.cc: with automatic chunks.
  // The tokens that a step of the model may have; `frames`: those for sequences that might come in.
  // Each running sequence has one token, and one that waits.
  std::int64_t step_budget(const ModelQueue& queue, Nanos now, std::int64_t frames);
  // Parts of it: the prompts, with view.decodes; the decoding sequences' bounds, with view.others.
  void find_prompts(const ModelQueue& queue, std::int64_t frames, ChunkView& view);
  void find_gaps(const ModelQueue& queue, ChunkView& view);
  // A step has been decided, or has ended; for one that failed `took` is zero.
  void expect_step(const Decision& decision, Nanos now);
  void measure_step(const Decision& decision, Nanos now, Nanos took);
  // Parts of check_integrity().
  Status check_ranks(const ModelQueue& queue) const;
  Status check_settling() const;
  // Whether all running sequences of the model are held and a step of it is in flight.
  bool awaits_held(const ModelQueue& queue) const;
  // Whether the decision does nothing but give running sequences their next tokens.
  bool gives_tokens(const Decision& decision) const;
  // Fills model_order with the models that have sequences, in the order of stepping.
  void order_models(Nanos now);
  void order_models_by_lag(Nanos now);

  Options options;
  std::unique_ptr<Policy> policy;
  Policy::Traits traits;
  SequenceTable table;
  std::vector<ModelQueue> queues;
  std::set<std::int32_t> unused;  // indices of queues
  // Indices of queues: all that have sequences, and some that had. The others need not be looked
  // at.
  std::vector<std::int32_t> listed;
  IdMap<ModelId, std::int32_t> queue_index;
  std::int64_t running_total = 0;
  std::int64_t waiting_total = 0;
  std::int64_t promised_total = 0;
  std::int64_t rotary_total = 0;
  std::int64_t outside_frames_total = 0;  // what all outside need for what they know
  std::int64_t steps = 0;
  int in_flight = 0;            // steps of resident models
  int streamed = 0;             // steps of streamed models
  std::int64_t held_total = 0;  // sequences that are held
  bool put_off = false;         // decide when nothing is in flight

  // The state of rotation.
  std::unique_ptr<RotationPolicy> rotation;  // null: everything is as without it
  RotationPolicy::Traits rotation_traits;
  HeapPositions positions;
  LengthHistory lengths;  // of answers that have ended; for policies that predict the peak
  std::vector<SlotIndex> settling;
  struct Account {  // of copies one way, in frames
    std::int64_t credit = 0;
    std::int64_t price = 0;  // of the first in line, which the credit did not cover
    void pay(std::int64_t budget) {
      credit = std::min(credit + budget, std::max(budget, price));
      price = 0;
    }
  };
  Account copies_in;
  Account copies_out;
  bool paid = false;  // for the step that is being decided

  // For automatic chunks: how long each resident step in flight is expected to take.
  std::vector<Nanos> expected;
  Nanos device_since;  // when the first of them began

  // Buffers of one decision, kept for their capacity.
  std::vector<PromptDue> prompts;
  std::vector<std::int32_t> model_order;
  std::vector<FutureUse> future;
  std::vector<const Ranked*> other_leaders;
  std::vector<std::int64_t> freed;  // beside Decision::preempted
  FrameReferences references;
};

inline void Scheduler::State::update_promise(ModelQueue& queue, Slot& slot) {
  const Tokens wanted = slot.wanted();
  // Usually there is room for its next token, and then no division is needed.
  const bool has_room = wanted.count <= slot.frames * queue.tokens_per_block;
  const std::int64_t promised = has_room ? 0 : queue.frames_for(wanted) - slot.frames;
  promised_total += promised - slot.promised;
  slot.promised = promised;
  if (!rotation) return;
  const std::int64_t owed = (wanted - slot.facts.computed).count;
  queue.backlog += owed - slot.owed;
  if (slot.scores) queue.backlog_scored += owed - slot.owed;
  slot.owed = owed;
}

}  // namespace causeway::schedule
