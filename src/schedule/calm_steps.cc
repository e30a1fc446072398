// Steps that are alike (docs/design/simulate.md, fast-forward).
#include <algorithm>

#include "base/dcheck.h"
#include "schedule/scheduler_state.h"

namespace causeway::schedule {

bool Scheduler::varies_with_time() const {
  const State& state = *state_;
  return state.rotation || state.traits.varies_with_time || state.options.chunk.automatic;
}

bool Scheduler::State::gives_tokens(const Decision& decision) const {
  return std::all_of(decision.runs.begin(), decision.runs.end(), [this](const Run& run) {
    const Slot& slot = table[static_cast<SlotIndex>(run.sequence.value)];
    const bool runs_on = slot.live && slot.facts.running && !slot.voided;
    return runs_on && run.tokens.count == 1 && run.samples;
  });
}

bool Scheduler::only_decodes(const Decision& decision) const {
  const State& state = *state_;
  if (varies_with_time()) return false;
  if (state.put_off || state.waiting_total > 0 || state.streamed > 0) return false;
  return std::ssize(decision.runs) == state.running_total && state.gives_tokens(decision);
}

bool Scheduler::alternate(const Decision& first, const Decision& second) const {
  const State& state = *state_;
  if (varies_with_time()) return false;
  if (state.put_off || state.waiting_total > 0 || state.streamed > 0) return false;
  if (first.model == second.model) return false;
  CAUSEWAY_DCHECK(!first.runs.empty() && !second.runs.empty(), "a step in flight computes");
  const std::int64_t runs = std::ssize(first.runs) + std::ssize(second.runs);
  return runs == state.running_total && state.gives_tokens(first) && state.gives_tokens(second);
}

void Scheduler::repeat_step(const Decision& decision, std::int64_t times, Nanos last_end) {
  ModelQueue& queue = state_->queue_of(decision.model);
  queue.last_step = last_end;
  state_->steps += times;
  queue.last_step_index = state_->steps;
  for (const Run& run : decision.runs) {
    Slot& slot = state_->table[static_cast<SlotIndex>(run.sequence.value)];
    CAUSEWAY_DCHECK(slot.live && slot.facts.running, "a calm step only decodes");
    slot.facts.last_progress = slot.facts.last_token = last_end;
    if (!slot.facts.answered) slot.facts.first_token = last_end;
    slot.facts.answered = true;
    slot.facts.output += Tokens(times);
    slot.facts.known += Tokens(times);
    slot.facts.computed += Tokens(times);
    slot.frames = std::max(slot.frames, queue.frames_for(slot.facts.computed));
    state_->update_promise(queue, slot);
  }
}

Tokens Scheduler::prompt_tokens_max() const { return Tokens(state_->options.tokens_per_step_max); }

void Scheduler::ran_alone(ModelId model, std::int64_t steps, Nanos last_end) {
  ModelQueue& queue = state_->queue_of(model);
  CAUSEWAY_DCHECK(state_->running_total + state_->waiting_total == 0, "a request is not alone");
  state_->steps += steps;
  queue.last_step = last_end;
  queue.last_step_index = state_->steps;
}

}  // namespace causeway::schedule
