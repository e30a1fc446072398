// The making of one decision with rotation: largest lag first within budgets (SuperInfer's LVF,
// docs/design/rotary.md). Internal to this room.
//
// For each model that may be stepped, until one runs: which sequences come in (take_in), which must
// leave for them and for the growth of running ones (take_out), and what runs (run). The decision
// that takes a victim uses nothing that the victim gives up.
#pragma once

#include "schedule/scheduler_state.h"

namespace causeway::schedule {

class RotationPlan {
 public:
  RotationPlan(Scheduler::State& state, const kv::KvCache& kv, const RotationInputs& inputs,
               Nanos now, Decision& decision);

  // Plans a step of this model. False: it can run nothing now, although sequences may still have to
  // leave.
  bool try_model(ModelQueue& queue);
  // Moves the victims out. Call it once, at the end.
  void finish();

 private:
  enum class Entry { kIn, kStopped, kNoPromptTokens };

  struct Need {                // of a candidate, in frames
    std::int64_t frames = 0;   // of available ones, for all its known tokens
    std::int64_t at_once = 0;  // of these, those taken by coming in
    std::int64_t copies = 0;   // in
    Tokens computed{0};        // tokens that will then be valid
    bool brings = false;       // it has a prefix in host memory
  };

  struct Claims {  // of more urgent ones that wait
    std::int64_t frames = 0;
    std::int64_t running = 0;
  };

  void keep_for_others();
  void take_in(ModelQueue& queue);
  Entry try_in(ModelQueue& queue, const Ranked& member);
  bool has_place(SlotIndex index, std::int64_t claimed, bool may_displace);
  void save_for(SlotIndex index, std::int64_t frames);
  Need need_of(ModelQueue& queue, SlotIndex index) const;
  Need need_of_prompt(const ModelQueue& queue, const Slot& slot) const;
  // Whether the part of a prefix that is in host memory only is copied in, rather than computed
  // again.
  bool worth_bringing(ModelId model, const PrefixCost& found) const;
  // Whether the predicted peak with this sequence fits.
  bool peak_fits(SlotIndex index);
  FutureUse future_of(const Slot& slot) const;
  void enter(ModelQueue& queue, SlotIndex index, const Need& need);
  void find_other_leaders(const ModelQueue& queue);
  Claims claims_before(const Ranked& member) const;

  void take_out();
  bool take_victim(bool for_growth);
  enum class Exit { kGone, kNoRoom, kNoCredit };
  // Rotates it to host memory, if that has room and the budget covers its copies now.
  Exit rotate(SlotIndex index, bool for_growth);
  // Updates next_to_lose(). False: no sequence may lose its KV.
  bool recompute();
  bool recompute_is_faster() const;
  RotateOutCost out_cost(SlotIndex index) const;
  void gone(SlotIndex index, std::int64_t frames);
  // Whether victims may keep what they have computed.
  bool may_rotate() const;
  // Whether a running sequence may lose its KV for a sequence that is outside.
  bool others_may_lose() const;
  // The first to leave; -1: none may.
  SlotIndex least_urgent() const;
  SlotIndex find_least_urgent() const;
  SlotIndex least_urgent_of(const ModelQueue& queue) const;
  // The sequence that loses least in the fixed order, among those that may leave; never the first
  // of the running ones. -1: none may.
  SlotIndex next_to_lose() const;
  // Whether `a` keeps its KV longer than `b`, by an order that does not change while they run,
  // leave and return.
  bool keeps_before(SlotIndex a, SlotIndex b) const;
  bool may_go(const ModelQueue& queue, const Slot& slot) const;
  // Whether the sequence may displace any other.
  bool displaces(const Slot& candidate) const;

  void run(ModelQueue& queue);
  void add_run(ModelQueue& queue, SlotIndex index, std::int64_t others);
  // Takes frames for as many of the tokens as possible; returns how many. 0: none.
  std::int64_t give_frames(const ModelQueue& queue, Slot& slot, std::int64_t tokens);

  // Frames beyond those that are kept free, once what was given up is free.
  std::int64_t spare() const { return available_ + coming_ - state_.promised_total - keep_; }
  bool nothing_else() const { return state_.in_flight + state_.streamed == 0; }

  Scheduler::State& state_;
  const kv::KvCache& kv_;
  const RotationInputs& inputs_;
  Decision& decision_;
  const Nanos now_;
  std::int64_t available_;       // frames that the decision may still take
  std::int64_t coming_;          // frames that will be free after steps and copies
  std::int64_t growth_;          // approximate growth of running sequences in a step
  std::int64_t keep_;            // frames to keep free
  std::int64_t twins_;           // twins that victims may still take
  std::int64_t exchanged_ = 0;   // frames that victims of this decision gave up
  std::int64_t goal_ = 0;        // frames wanted beyond those kept, for a large sequence
  std::int64_t set_aside_ = 0;   // frames for a sequence that lacks prompt tokens
  std::int64_t budget_ = 0;      // tokens left in the step
  std::int64_t spare_rows_ = 0;  // logits rows for scored chunks, beside one each
  SlotIndex for_whom_ = -1;      // the sequence that victims leave for; -1: growth only
  // least_urgent(), until a victim leaves (a sequence that comes in is never a victim); kUnknown:
  // to be computed.
  static constexpr SlotIndex kUnknown = -2;
  mutable SlotIndex least_ = kUnknown;
  bool brought_ = false;  // an admitted sequence brings a prefix
  bool stalled_ = false;  // a running sequence lacks a frame
  bool stuck_ = false;    // nothing runs or is in flight: budgets do not bind
};

}  // namespace causeway::schedule
