// How a sequence enters and leaves its states: the orders and the sums that include it.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "schedule/scheduler_state.h"

namespace causeway::schedule {

const Ranked* leader_of(const ModelQueue& queue, Nanos now) {
  const Ranked* waiting = queue.ranked_waiting.leader(now);
  const Ranked* rotary = queue.ranked_rotary.leader(now);
  if (waiting == nullptr || rotary == nullptr) return waiting == nullptr ? rotary : waiting;
  return leads(*rotary, *waiting, now) ? rotary : waiting;
}

Nanos idle_slack_of(const SequenceFacts& facts) {
  constexpr double kLeast = 0.5;
  return nanos_from_seconds(to_seconds(facts.slo.tpot) * std::max(facts.slo.tpot_slack, kLeast));
}

void Scheduler::State::list(std::int32_t place) {
  ModelQueue& queue = queues[static_cast<std::size_t>(place)];
  if (!std::exchange(queue.listed, true)) listed.push_back(place);
}

void Scheduler::State::unlist() {
  std::erase_if(listed, [this](std::int32_t place) {
    ModelQueue& queue = queues[static_cast<std::size_t>(place)];
    queue.listed = !queue.running.empty() || !queue.outside_empty();
    return !queue.listed;
  });
}

void Scheduler::State::enter_outside(SlotIndex index) {
  Slot& slot = table[index];
  CAUSEWAY_DCHECK(slot.live && !slot.facts.running && slot.frames == 0,
                  "a sequence that waits outside HBM holds none of it");
  ModelQueue& queue = queue_of(slot);
  list(slot.model);
  const bool rotary = slot.facts.rotary;
  (rotary ? rotary_total : waiting_total) += 1;
  (rotary ? queue.rotary_count : queue.waiting_count) += 1;
  const std::int64_t frames = queue.frames_for(slot.facts.known);
  queue.outside_frames[frames] += 1;
  outside_frames_total += frames;
  if (!rotation) {
    queue.waiting.push(table, index);
  } else if (rotary || slot.in_flight > 0) {
    slot.settling = true;
    settling.push_back(index);
  } else {
    rank(index);
  }
}

void Scheduler::State::leave_outside(SlotIndex index) {
  Slot& slot = table[index];
  ModelQueue& queue = queue_of(slot);
  const bool rotary = slot.facts.rotary;
  (rotary ? rotary_total : waiting_total) -= 1;
  (rotary ? queue.rotary_count : queue.waiting_count) -= 1;
  const std::int64_t frames = queue.frames_for(slot.facts.known);
  const auto entry = queue.outside_frames.find(frames);
  CAUSEWAY_CHECK(entry != queue.outside_frames.end(),
                 "a sequence outside is counted by its frames");
  if (--entry->second == 0) queue.outside_frames.erase(entry);
  outside_frames_total -= frames;
  CAUSEWAY_DCHECK(outside_frames_total >= 0 && waiting_total >= 0 && rotary_total >= 0,
                  "more left than were outside");
  if (!rotation) {
    queue.waiting.erase(table, index);
  } else if (slot.settling) {
    slot.settling = false;
    std::erase(settling, index);
  } else {
    unrank(index);
  }
}

void Scheduler::State::enter_running(SlotIndex index) {
  Slot& slot = table[index];
  CAUSEWAY_DCHECK(slot.live && slot.facts.running && !slot.settling,
                  "a sequence that runs has settled, and says that it runs");
  ModelQueue& queue = queue_of(slot);
  if (rotation) {
    slot.urgency = rotation->inside(slot.facts);
    queue.slacks[idle_slack_of(slot.facts)] += 1;
  }
  queue.running.insert(table, index);
  running_total += 1;
}

void Scheduler::State::leave_running(SlotIndex index) {
  Slot& slot = table[index];
  ModelQueue& queue = queue_of(slot);
  queue.running.erase(table, index);
  running_total -= 1;
  promised_total -= slot.promised;
  slot.promised = 0;
  queue.backlog -= slot.owed;
  if (slot.scores) queue.backlog_scored -= slot.owed;
  slot.owed = 0;
  CAUSEWAY_DCHECK(running_total >= 0 && promised_total >= 0 && queue.backlog >= 0,
                  "more left than ran");
  if (!rotation) return;
  const auto entry = queue.slacks.find(idle_slack_of(slot.facts));
  CAUSEWAY_CHECK(entry != queue.slacks.end(), "a running sequence is counted by its slack");
  if (--entry->second == 0) queue.slacks.erase(entry);
}

void Scheduler::State::rank(SlotIndex index) {
  const Slot& slot = table[index];
  CAUSEWAY_DCHECK(!slot.settling && !slot.facts.running, "only sequences outside are ranked");
  ModelQueue& queue = queue_of(table[index]);
  const Ranked member{.standing = rotation->outside(slot.facts),
                      .arrival = slot.facts.arrival,
                      .id = slot.facts.request.value,
                      .index = index};
  (slot.facts.rotary ? queue.ranked_rotary : queue.ranked_waiting).push(positions, member);
}

void Scheduler::State::unrank(SlotIndex index) {
  ModelQueue& queue = queue_of(table[index]);
  const SequenceFacts& facts = table[index].facts;
  (facts.rotary ? queue.ranked_rotary : queue.ranked_waiting).erase(positions, index);
}

void Scheduler::State::rank_late(UrgencyHeaps& heaps, Nanos now) {
  if (!rotation_traits.steps_back) return;
  while (const Ranked* leader = heaps.leader(now)) {
    const SlotIndex index = leader->index;
    SequenceFacts& facts = table[index].facts;
    if (facts.answered || facts.late || now <= facts.arrival + facts.slo.ttft) return;
    unrank(index);
    facts.late = true;
    rank(index);
  }
}

void Scheduler::State::settle(const RotationView* view) {
  std::erase_if(settling, [&](SlotIndex index) {
    Slot& slot = table[index];
    if (slot.in_flight > 0) return false;
    if (slot.facts.rotary && (view == nullptr || !view->may_return(slot.facts.request))) {
      return false;
    }
    slot.settling = false;
    rank(index);
    return true;
  });
}

double Scheduler::State::running_lag(const Slot& slot, Nanos now) const {
  const double had = to_seconds(now - slot.facts.running_since);
  const ModelQueue& queue = queues[static_cast<std::size_t>(slot.model)];
  if (queue.in_flight > 0) return -had;
  // The tokens that it is owed count from its model's last step, or from when it came in after
  // that.
  const Nanos served = std::max(queue.last_step, slot.facts.running_since);
  const Standing owed{.slope = queue.alpha, .onset = served + idle_slack_of(slot.facts)};
  return owed.lag(now) - had;
}

double Scheduler::State::idle_lag(const ModelQueue& queue, Nanos now) const {
  if (queue.in_flight > 0) return 0;
  if (queue.slacks.empty()) {
    const Ranked* leader = leader_of(queue, now);
    return leader == nullptr ? 0 : leader->standing.lag(now);
  }
  const Nanos least = queue.slacks.begin()->first;
  return Standing{.slope = queue.alpha, .onset = queue.last_step + least}.lag(now);
}

void Scheduler::State::order_models_by_lag(Nanos now) {
  model_order.clear();
  unlist();
  for (const std::int32_t i : listed) model_order.push_back(i);
  if (model_order.size() < 2) return;
  const auto since = [&](const ModelQueue& queue) {
    if (queue.in_flight > 0) return now;
    const Ranked* leader = queue.running.empty() ? leader_of(queue, now) : nullptr;
    return leader == nullptr ? queue.last_step : std::max(queue.last_step, leader->arrival);
  };
  const bool ages = rotation_traits.ages;
  std::sort(model_order.begin(), model_order.end(), [&](std::int32_t a, std::int32_t b) {
    const ModelQueue& x = queues[static_cast<std::size_t>(a)];
    const ModelQueue& y = queues[static_cast<std::size_t>(b)];
    const double lag_x = ages ? idle_lag(x, now) : 0;
    const double lag_y = ages ? idle_lag(y, now) : 0;
    if (lag_x != lag_y) return lag_x > lag_y;
    if (since(x) != since(y)) return since(x) < since(y);
    return std::pair(x.last_step_index, a) < std::pair(y.last_step_index, b);
  });
}

bool Scheduler::lost(Handle sequence) {
  CAUSEWAY_CHECK(state_->rotation != nullptr, "nothing is copied without rotation");
  // A twin that cannot be copied would be found again, and its copy fail again.
  state_->table[static_cast<SlotIndex>(sequence.value)].distrusts = true;
  return restart(sequence);
}

bool Scheduler::restart(Handle sequence) {
  const auto index = static_cast<SlotIndex>(sequence.value);
  Slot& slot = state_->table[index];
  CAUSEWAY_CHECK(slot.live && (slot.facts.running || slot.facts.rotary), "it has nothing to lose");
  if (slot.facts.running) {
    // Its rows in steps in flight are void, and so are the tokens that they sample.
    state_->leave_running(index);
    slot.facts.known = slot.facts.known - Tokens(slot.pending);
    slot.voided = slot.in_flight > 0;
  } else {
    state_->leave_outside(index);
  }
  slot.facts.rotary = false;
  state_->wait_again(index);
  return slot.voided;
}

}  // namespace causeway::schedule
