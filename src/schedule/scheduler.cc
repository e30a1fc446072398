#include "schedule/scheduler.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/dcheck.h"
#include "schedule/plan.h"
#include "schedule/rotation_plan.h"
#include "schedule/scheduler_state.h"

namespace causeway::schedule {

void FrameReferences::reset(std::int64_t frames) {
  CAUSEWAY_DCHECK(frames >= 0, "a pool of a negative number of frames");
  counts_.assign(static_cast<std::size_t>(frames), 0);
}

void FrameReferences::add(std::span<const FrameId> table) {
  for (const FrameId frame : table) {
    CAUSEWAY_DCHECK(frame.valid() && frame.value < std::ssize(counts_), "a frame beyond the pool");
    ++counts_[static_cast<std::size_t>(frame.value)];
  }
}

std::int64_t FrameReferences::drop(std::span<const FrameId> table, const kv::KvCache& kv) {
  std::int64_t freed = 0;
  for (const FrameId frame : table) {
    CAUSEWAY_DCHECK(counts_[static_cast<std::size_t>(frame.value)] > 0,
                    "a table is dropped that was not added");
    const bool last = --counts_[static_cast<std::size_t>(frame.value)] == 0;
    freed += last && !kv.retiring(frame) ? 1 : 0;
  }
  return freed;
}

Scheduler::State::State(const Options& options_in, std::unique_ptr<Policy> policy_in)
    : options(options_in), policy(std::move(policy_in)) {
  if (policy == nullptr) {
    rotation = make_rotation_policy(options.policy, options.rotation);
    rotation_traits = rotation->traits();
  } else {
    traits = policy->traits();
  }
  CAUSEWAY_CHECK(options.tokens_per_step_max >= 1, "a step without room for a token");
  CAUSEWAY_CHECK(options.running_max >= 1, "no sequence may run");
  // Every running sequence gets a token of its model's step.
  options.running_max = std::min(options.running_max, options.tokens_per_step_max);
}

const ModelQueue& Scheduler::State::queue_of(ModelId model) const {
  const auto at = queue_index.find(model);
  CAUSEWAY_CHECK(at != queue_index.end(), "the scheduler does not know this model");
  return queues[static_cast<std::size_t>(at->second)];
}

ModelQueue& Scheduler::State::queue_of(ModelId model) {
  return const_cast<ModelQueue&>(std::as_const(*this).queue_of(model));
}

void Scheduler::State::set_urgency(Slot& slot, Nanos now) {
  slot.urgency = policy->urgency(slot.facts, now);
  CAUSEWAY_CHECK(std::isfinite(slot.urgency), "a policy gave an urgency that is not a number");
}

void Scheduler::State::refresh_urgencies(Nanos now) {
  for (ModelQueue& queue : queues) {
    for (const SlotIndex index : queue.waiting.members()) set_urgency(table[index], now);
    for (const SlotIndex index : queue.running.members()) set_urgency(table[index], now);
    queue.waiting.rebuild(table);
    queue.running.rebuild(table);
  }
}

void Scheduler::State::wait_again(SlotIndex index) {
  Slot& slot = table[index];
  CAUSEWAY_DCHECK(slot.live && slot.owed == 0, "a victim leaves the sums of the running first");
  slot.promised = 0;  // no longer counted
  slot.frames = 0;
  slot.facts.computed = Tokens(0);
  slot.facts.running = false;
  enter_outside(index);
}

void Scheduler::State::end_step(const Decision& decision, Nanos now) {
  ModelQueue& queue = queue_of(decision.model);
  int& lane = queue.streamed ? streamed : in_flight;
  CAUSEWAY_CHECK(lane > 0, "no step is in flight");
  lane -= 1;
  queue.in_flight -= 1;
  queue.last_step = now;
  queue.last_step_index = ++steps;
  for (const Run& run : decision.runs) {
    const auto index = static_cast<SlotIndex>(run.sequence.value);
    Slot& slot = table[index];
    CAUSEWAY_DCHECK(slot.in_flight > 0, "a step ends that does not run the sequence");
    CAUSEWAY_DCHECK(!run.samples || slot.pending > 0, "a token is sampled that was not awaited");
    slot.in_flight -= 1;
    if (run.samples) slot.pending -= 1;
    if (!slot.live) {
      if (slot.in_flight == 0) table.free(index);
      continue;
    }
    slot.facts.last_progress = now;
    if (run.samples && !slot.voided) {
      slot.facts.last_token = now;
      if (!slot.facts.answered) slot.facts.first_token = now;
      slot.facts.answered = true;
      slot.facts.output += Tokens(1);
    }
    if (slot.in_flight == 0) slot.voided = false;
  }
}

Scheduler::Scheduler(const Options& options)
    : Scheduler(options, options.rotates() ? nullptr : make_policy(options.policy)) {}
Scheduler::Scheduler(const Options& options, std::unique_ptr<Policy> policy)
    : state_(std::make_unique<State>(options, std::move(policy))) {}
Scheduler::~Scheduler() = default;

void Scheduler::add_model(ModelId model, Tokens tokens_per_block, bool streamed, double alpha) {
  CAUSEWAY_CHECK(model.valid() && tokens_per_block.count >= 1, "a model without an id or a block");
  CAUSEWAY_CHECK(check_alpha(alpha).ok(), "alpha is out of its range");
  auto& queues = state_->queues;
  auto& free = state_->unused;
  const auto at = free.empty() ? queues.emplace(queues.end()) : queues.begin() + *free.begin();
  if (!free.empty()) free.erase(free.begin());
  const auto [entry, inserted] =
      state_->queue_index.emplace(model, static_cast<std::int32_t>(at - queues.begin()));
  CAUSEWAY_CHECK(inserted, "the scheduler knows this model already");
  *at = ModelQueue();
  at->id = model;
  at->streamed = streamed;
  at->tokens_per_block = tokens_per_block.count;
  at->alpha = alpha;
}

void Scheduler::set_step_cost(ModelId model, const StepCost& cost) {
  ModelQueue& queue = state_->queue_of(model);
  queue.chunk.reset();
  if (!state_->options.chunk.automatic || !cost.known()) return;
  queue.chunk.emplace(state_->options.chunk, cost, Tokens(state_->options.tokens_per_step_max));
}

void Scheduler::remove_model(ModelId model) {
  ModelQueue& queue = state_->queue_of(model);
  CAUSEWAY_CHECK(queue.outside_empty() && queue.running.empty(), "the model still has sequences");
  const auto place = static_cast<std::int32_t>(&queue - state_->queues.data());
  std::erase(state_->listed, place);
  state_->unused.insert(place);
  queue = ModelQueue();
  state_->queue_index.erase(model);
}

namespace {

SequenceFacts facts_of(const NewSequence& sequence) {
  SequenceFacts facts;
  facts.request = sequence.request;
  facts.model = sequence.model;
  facts.arrival = sequence.arrival;
  facts.last_progress = sequence.arrival;
  facts.first_token = sequence.arrival;
  facts.last_token = sequence.arrival;
  facts.slo = sequence.slo;
  facts.priority = sequence.priority;
  facts.known = Tokens(std::ssize(*sequence.tokens));
  facts.output_expected =
      sequence.output_truth.count > 0 ? sequence.output_truth : sequence.length_max - facts.known;
  return facts;
}

}  // namespace

Handle Scheduler::add(const NewSequence& sequence) {
  CAUSEWAY_CHECK(sequence.tokens != nullptr && !sequence.tokens->empty(),
                 "a sequence without tokens");
  ModelQueue& queue = state_->queue_of(sequence.model);
  const SlotIndex index = state_->table.add();
  Slot& slot = state_->table[index];
  slot.model = static_cast<std::int32_t>(&queue - state_->queues.data());
  slot.tokens = sequence.tokens;
  slot.length_max = sequence.length_max;
  slot.scores = sequence.scores;
  slot.facts = facts_of(sequence);
  if (state_->rotation) {
    slot.facts.alpha = queue.alpha;
    slot.facts.output_expected =
        state_->rotation->expected_output(sequence.request, slot.facts.output_expected);
  } else {
    state_->set_urgency(slot, sequence.arrival);
  }
  state_->enter_outside(index);
  return Handle(index);
}

void Scheduler::remove(Handle sequence) {
  const auto index = static_cast<SlotIndex>(sequence.value);
  Slot& slot = state_->table[index];
  CAUSEWAY_CHECK(slot.live, "no such sequence");
  if (slot.facts.running) {
    state_->leave_running(index);
  } else {
    state_->leave_outside(index);
  }
  if (state_->rotation_traits.predicts_peak && slot.facts.answered) {
    state_->lengths.record(slot.facts.output);
  }
  hold(sequence, false);
  slot.live = false;
  if (slot.in_flight == 0) state_->table.free(index);
}

void Scheduler::hold(Handle sequence, bool held) {
  Slot& slot = state_->table[static_cast<SlotIndex>(sequence.value)];
  CAUSEWAY_CHECK(slot.live, "no such sequence");
  state_->held_total += (held ? 1 : 0) - (slot.held ? 1 : 0);
  slot.held = held;
}

bool Scheduler::State::awaits_held(const ModelQueue& queue) const {
  if (held_total < queue.running.size() || queue.in_flight == 0 || queue.running.empty()) {
    return false;
  }
  const auto& running = queue.running.members();
  return std::all_of(running.begin(), running.end(),
                     [this](SlotIndex index) { return table[index].held; });
}

Tokens Scheduler::tokens_wanted(ModelId model, Nanos now) const {
  const ModelQueue& queue = state_->queue_of(model);
  const Tokens most(state_->step_budget(queue, now, kAnyFrames));
  Tokens sum(0);
  const auto add = [&](SlotIndex index) {
    const Slot& slot = state_->table[index];
    CAUSEWAY_DCHECK(slot.wanted() >= slot.facts.computed, "more is computed than is wanted");
    sum += slot.wanted() - slot.facts.computed;
    return sum < most;
  };
  for (const SlotIndex index : queue.running.members()) {
    if (!add(index)) return most;
  }
  queue.each_outside(add);
  return std::min(sum, most);
}

FramesWanted Scheduler::frames_wanted(const kv::KvCache& kv) const {
  FramesWanted wanted{.more = state_->promised_total};
  std::int64_t running_left = state_->options.running_max - state_->running_total;
  CAUSEWAY_DCHECK(wanted.more >= 0 && running_left >= 0, "more run than may");
  for (const ModelQueue& queue : state_->queues) {
    for (const SlotIndex index : queue.running.members()) {
      wanted.largest = std::max(wanted.largest, queue.frames_for(state_->table[index].wanted()));
    }
    if (queue.outside_frames.empty()) continue;
    wanted.largest = std::max(wanted.largest, queue.outside_frames.rbegin()->first);
    queue.each_outside([&](SlotIndex index) {
      if (running_left-- <= 0) return false;
      wanted.more += queue.frames_for(state_->table[index].facts.known);
      return true;
    });
  }
  const bool outside = state_->waiting_total + state_->rotary_total > 0;
  if (state_->running_total > 0 && outside) wanted.more += spare_frames(kv);
  return wanted;
}

void Scheduler::schedule(Nanos now, const kv::KvCache& kv, Decision& decision,
                         const ModelFilter& may_step, const RotationInputs& rotation) {
  decision.model = ModelId();
  decision.preempted.clear();
  decision.rotated_out.clear();
  decision.admitted.clear();
  decision.rotated_in.clear();
  decision.runs.clear();
  if (state_->running_total + state_->waiting_total + state_->rotary_total == 0) return;
  if (state_->in_flight > 0 && state_->put_off) return;
  const auto plan_with = [&](auto&& plan) {
    for (const std::int32_t i : state_->model_order) {
      ModelQueue& queue = state_->queues[static_cast<std::size_t>(i)];
      if (may_step && !may_step(queue.id)) continue;
      if (state_->awaits_held(queue)) continue;
      if (plan.try_model(queue)) break;
    }
    plan.finish();
    state_->expect_step(decision, now);
  };
  if (state_->rotation) {
    state_->settle(rotation.view);
    for (ModelQueue& queue : state_->queues) {
      state_->rank_late(queue.ranked_waiting, now);
      state_->rank_late(queue.ranked_rotary, now);
    }
    state_->order_models_by_lag(now);
    plan_with(RotationPlan(*state_, kv, rotation, now, decision));
    return;
  }
  if (state_->traits.varies_with_time) state_->refresh_urgencies(now);
  state_->order_models(now);
  plan_with(Plan(*state_, kv, now, decision));
}

void Scheduler::State::order_models(Nanos now) {
  model_order.clear();
  const auto since = [&](const ModelQueue& queue) {
    if (queue.in_flight > 0) return now;
    if (!queue.running.empty()) return queue.last_step;
    return std::max(queue.last_step, table[queue.waiting.top()].facts.arrival);
  };
  unlist();
  for (const std::int32_t i : listed) model_order.push_back(i);
  if (model_order.size() < 2) return;
  std::sort(model_order.begin(), model_order.end(), [&](std::int32_t a, std::int32_t b) {
    const ModelQueue& x = queues[static_cast<std::size_t>(a)];
    const ModelQueue& y = queues[static_cast<std::size_t>(b)];
    if (since(x) != since(y)) return since(x) < since(y);
    return std::pair(x.last_step_index, a) < std::pair(y.last_step_index, b);
  });
}

void Scheduler::preempt_all(Decision& decision) {
  CAUSEWAY_CHECK(state_->in_flight + state_->streamed == 0,
                 "a step in flight computes what would be preempted");
  decision = Decision();
  for (ModelQueue& queue : state_->queues) {
    while (!queue.running.empty()) {
      const SlotIndex index = queue.running.back();
      state_->leave_running(index);
      decision.preempted.push_back(
          {.sequence = Handle(index), .request = state_->table[index].facts.request});
      state_->wait_again(index);
    }
  }
}

void Scheduler::step_done(const Decision& decision, Nanos now, Nanos took) {
  state_->end_step(decision, now);
  state_->measure_step(decision, now, took);
}
void Scheduler::step_failed(const Decision& decision, Nanos now) {
  state_->end_step(decision, now);
  state_->measure_step(decision, now, Nanos(0));
}

std::int64_t Scheduler::waiting() const { return state_->waiting_total; }
std::int64_t Scheduler::running() const { return state_->running_total; }
std::int64_t Scheduler::rotary() const { return state_->rotary_total; }
std::int64_t Scheduler::waiting(ModelId model) const {
  return state_->queue_of(model).waiting_count;
}
std::int64_t Scheduler::running(ModelId model) const {
  return state_->queue_of(model).running.size();
}
std::int64_t Scheduler::rotary(ModelId model) const { return state_->queue_of(model).rotary_count; }

}  // namespace causeway::schedule
