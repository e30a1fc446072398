// The making of one decision. Internal to this room; scheduler.h states the rules.
#pragma once

#include "schedule/scheduler_state.h"

namespace causeway::schedule {

class Plan {
 public:
  Plan(Scheduler::State& state, const kv::KvCache& kv, Nanos now, Decision& decision);

  // Plans a step of this model. False: it can run nothing now, and nothing was changed.
  bool try_model(ModelQueue& queue);
  // Moves preempted sequences to their waiting heaps, and counts the runs as computed. Call it
  // once, at the end.
  void finish();

 private:
  struct Claims {  // of more urgent sequences that wait for other models
    std::int64_t frames = 0;
    std::int64_t sequences = 0;
  };

  struct Entry {                 // how a sequence is admitted
    Tokens cached;               // of its tokens, those found in the prefix index
    std::int64_t free_hits = 0;  // of those, frames of running sequences: not charged
    std::int64_t position = 0;   // in the running list
  };

  void plan_run(ModelQueue& queue, std::int64_t position);
  bool admit(ModelQueue& queue, SlotIndex index, std::int64_t position);
  bool try_admit(ModelQueue& queue, SlotIndex index, std::int64_t position, bool displaces);
  // How many tokens of its prompt a step may compute.
  std::int64_t rows_for(const Slot& slot) const;
  bool make_room(SlotIndex index);
  bool skip_blocked(ModelQueue& queue, SlotIndex index, std::int64_t room);
  void admit_with(ModelQueue& queue, SlotIndex index, const Entry& entry);
  Claims claims_before(const ModelQueue& queue, SlotIndex index) const;
  void add_run(ModelQueue& queue, SlotIndex index, Tokens tokens);

  // Preempts from the least urgent up until enough(); all or nothing.
  template <typename Enough>
  bool displace(SlotIndex for_whom, bool strictly, Enough enough);
  bool can_displace(SlotIndex for_whom, bool strictly);
  ModelQueue* least_urgent_queue();
  void take_victim(ModelQueue& queue);
  void return_victims(std::size_t keep);
  void count_references();

  Scheduler::State& state_;
  const kv::KvCache& kv_;
  const Nanos now_;
  Decision& decision_;
  std::int64_t available_;       // frames that the decision may still take
  std::int64_t budget_ = 0;      // tokens left in the step
  std::int64_t spare_rows_ = 0;  // logits rows for scored chunks, beside one each
  std::int64_t taken_rows_ = 0;  // of `spare_rows_`, those that they have taken
  std::int64_t uncharged_ = 0;   // prefix frames charged to running sequences
  const bool ahead_;             // a step is in flight: no sequence is displaced
  bool put_off_ = false;         // one should have been displaced
  bool references_counted_ = false;
  bool growth_displaced_ = false;   // then this step admits no other
  bool displacing_failed_ = false;  // less urgent sequences need not try
};

}  // namespace causeway::schedule
