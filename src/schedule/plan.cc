#include "schedule/plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::schedule {
Plan::Plan(Scheduler::State& state, const kv::KvCache& kv, Nanos now, Decision& decision)
    : state_(state),
      kv_(kv),
      now_(now),
      decision_(decision),
      available_(kv.counts().available()),
      ahead_(state.in_flight > 0) {
  state_.freed.clear();
}

bool Plan::try_model(ModelQueue& queue) {
  budget_ = state_.step_budget(queue, now_, available_ - state_.promised_total);
  spare_rows_ = spare_logit_rows(state_.options.running_max, state_.running_total);
  taken_rows_ = 0;
  bool admitting = true;
  std::int64_t position = 0;
  displacing_failed_ = false;
  while (true) {
    const std::int64_t left = queue.running.size() - position;
    const bool head_next =
        admitting && !growth_displaced_ && !queue.waiting.empty() &&
        (left == 0 || state_.table.before(queue.waiting.top(), queue.running[position]));
    if (head_next) {
      // A head that was passed over for want of budget is not admitted, because those behind it run
      // already.
      admitting = budget_ > left && admit(queue, queue.waiting.top(), position);
      if (admitting) ++position;
    } else if (left > 0) {
      plan_run(queue, position++);
    } else {
      break;
    }
  }
  const bool runs = !decision_.runs.empty();
  CAUSEWAY_CHECK(runs || (decision_.preempted.empty() && decision_.admitted.empty()),
                 "a plan that runs nothing must change nothing");
  if (runs) decision_.model = queue.id;
  return runs;
}

void Plan::plan_run(ModelQueue& queue, std::int64_t position) {
  const SlotIndex index = queue.running[position];
  Slot& slot = state_.table[index];
  const std::int64_t others = queue.running.size() - position - 1;
  const Tokens left = slot.wanted() - slot.facts.computed;
  if (left.count == 0 || slot.held) return;  // a step in flight samples its last token
  std::int64_t tokens = std::min({left.count, budget_ - others, rows_for(slot)});
  const auto fitting = [&] {
    return (slot.frames + available_) * queue.tokens_per_block - slot.facts.computed.count;
  };
  if (fitting() < 1 && !make_room(index)) return;  // stalls
  tokens = std::min(tokens, fitting());
  available_ -= queue.frames_for(slot.facts.computed + Tokens(tokens)) - slot.frames;
  CAUSEWAY_DCHECK(available_ >= 0, "a run takes frames that are not there");
  add_run(queue, index, Tokens(tokens));
}

std::int64_t Plan::rows_for(const Slot& slot) const {
  return slot.scores ? 1 + spare_rows_ - taken_rows_ : INT64_MAX;
}

// Makes room for a sequence that lacks a frame. False: it must wait until another sequence ends, or
// until the step in flight has ended.
bool Plan::make_room(SlotIndex index) {
  if (ahead_) {
    put_off_ = true;
    growth_displaced_ = true;
    return false;
  }
  if (displacing_failed_) return false;
  if (!displace(index, false, [&] { return available_ >= 1; })) {
    displacing_failed_ = true;
    return false;
  }
  growth_displaced_ = true;
  return true;
}

void Plan::add_run(ModelQueue& queue, SlotIndex index, Tokens tokens) {
  Slot& slot = state_.table[index];
  CAUSEWAY_CHECK(tokens.count >= 1 && tokens.count <= budget_, "a run outside the step's budget");
  const Tokens end = slot.facts.computed + tokens;
  slot.frames = std::max(slot.frames, queue.frames_for(end));
  slot.in_flight += 1;
  state_.update_promise(queue, slot);
  budget_ -= tokens.count;
  if (slot.scores) taken_rows_ += tokens.count - 1;
  decision_.runs.push_back({.sequence = Handle(index),
                            .request = slot.facts.request,
                            .context = slot.facts.computed,
                            .tokens = tokens,
                            .samples = end == slot.facts.known});
}

Plan::Claims Plan::claims_before(const ModelQueue& queue, SlotIndex index) const {
  Claims claims;
  for (const std::int32_t place : state_.listed) {
    const ModelQueue& other = state_.queues[static_cast<std::size_t>(place)];
    if (&other == &queue || other.waiting.empty()) continue;
    const SlotIndex head = other.waiting.top();
    if (!state_.table.before(head, index)) continue;
    claims.frames += other.frames_for(state_.table[head].facts.known);
    claims.sequences += 1;
  }
  return claims;
}

bool Plan::skip_blocked(ModelQueue& queue, SlotIndex index, std::int64_t room) {
  if (queue.blocked_head != state_.table[index].facts.request) return false;
  if (state_.running_total == 0 || room > queue.blocked_room) return false;
  return ++queue.blocked_skips < kBlockedSkipsMax;
}

bool Plan::admit(ModelQueue& queue, SlotIndex index, std::int64_t position) {
  if (state_.table[index].held) return false;
  const bool urgent = state_.traits.admission_preempts && can_displace(index, true);
  if (try_admit(queue, index, position, urgent && !ahead_)) return true;
  put_off_ = put_off_ || (urgent && ahead_);
  return false;
}

bool Plan::try_admit(ModelQueue& queue, SlotIndex index, std::int64_t position, bool displaces) {
  const Slot& slot = state_.table[index];
  const Claims claims = claims_before(queue, index);
  const auto slots_left = [&] {
    return state_.options.running_max - state_.running_total - taken_rows_ - claims.sequences;
  };
  const auto room = [&] { return available_ - state_.promised_total - claims.frames; };
  if (!displaces && (slots_left() < 1 || skip_blocked(queue, index, room()))) return false;

  const Tokens cached = kv_.match_prefix(queue.id, slot.prefix());
  const std::int64_t hits = cached.count / queue.tokens_per_block;
  // Prefix frames that running sequences hold cost nothing, unless some of those are preempted.
  const std::int64_t free_hits = references_counted_ || hits == 0
                                     ? 0
                                     : hits - kv_.cached_frames_of_prefix(queue.id, slot.prefix());
  const std::int64_t known_frames = queue.frames_for(slot.facts.known);
  const auto spare = [&] { return state_.running_total > 0 ? spare_frames(kv_) : 0; };

  if (slots_left() >= 1 && room() >= known_frames - free_hits + spare()) {
    admit_with(queue, index, {cached, free_hits, position});
    return true;
  }
  const auto enough = [&] { return slots_left() >= 1 && room() >= known_frames + spare(); };
  if (displaces && displace(index, true, enough)) {
    admit_with(queue, index, {cached, 0, position});
    return true;
  }
  queue.blocked_head = slot.facts.request;
  queue.blocked_room = room();
  queue.blocked_skips = 0;
  return false;
}

void Plan::admit_with(ModelQueue& queue, SlotIndex index, const Entry& entry) {
  Slot& slot = state_.table[index];
  state_.leave_outside(index);
  slot.facts.running = true;
  state_.enter_running(index);
  slot.facts.computed = entry.cached;
  slot.frames = entry.cached.count / queue.tokens_per_block;
  decision_.admitted.push_back(
      {.sequence = Handle(index), .request = slot.facts.request, .cached = entry.cached});
  const std::int64_t others = queue.running.size() - entry.position - 1;
  const Tokens tokens(
      std::min({(slot.facts.known - entry.cached).count, budget_ - others, rows_for(slot)}));
  available_ -= queue.frames_for(entry.cached + tokens) - entry.free_hits;
  uncharged_ += entry.free_hits;
  add_run(queue, index, tokens);
}

void Plan::count_references() {
  state_.references.reset(kv_.frames_max());
  for (const ModelQueue& queue : state_.queues) {
    for (const SlotIndex index : queue.running.members()) {
      const RequestId request = state_.table[index].facts.request;
      if (kv_.is_open(request)) state_.references.add(kv_.table(request));
    }
  }
  references_counted_ = true;
}

template <typename Enough>
bool Plan::displace(SlotIndex for_whom, bool strictly, Enough enough) {
  if (!can_displace(for_whom, strictly)) return false;
  const bool first = !references_counted_;
  if (first) {
    count_references();
    available_ -= uncharged_;
  }
  const std::size_t keep = decision_.preempted.size();
  while (!enough()) {
    if (!can_displace(for_whom, strictly)) {
      return_victims(keep);
      if (first) {
        available_ += uncharged_;
        references_counted_ = false;
      }
      return false;
    }
    take_victim(*least_urgent_queue());
  }
  uncharged_ = 0;
  return true;
}

bool Plan::can_displace(SlotIndex for_whom, bool strictly) {
  const ModelQueue* queue = least_urgent_queue();
  if (queue == nullptr) return false;
  const SlotIndex victim = queue->running.back();
  if (!state_.table.before(for_whom, victim)) return false;
  return !strictly || state_.table[victim].urgency < state_.table[for_whom].urgency;
}

ModelQueue* Plan::least_urgent_queue() {
  ModelQueue* least = nullptr;
  for (const std::int32_t place : state_.listed) {
    ModelQueue& queue = state_.queues[static_cast<std::size_t>(place)];
    if (queue.running.empty()) continue;
    // A sequence that a streamed step computes is not preempted.
    if (!ahead_ && queue.in_flight > 0) continue;
    if (least == nullptr || state_.table.before(least->running.back(), queue.running.back())) {
      least = &queue;
    }
  }
  return least;
}

void Plan::take_victim(ModelQueue& queue) {
  const SlotIndex index = queue.running.back();
  const Slot& slot = state_.table[index];
  CAUSEWAY_CHECK(slot.in_flight == 0, "a sequence that the step runs cannot be preempted by it");
  queue.running.pop_back();
  state_.running_total -= 1;
  state_.promised_total -= slot.promised;
  const std::int64_t freed = state_.references.drop(kv_.table(slot.facts.request), kv_);
  available_ += freed;
  CAUSEWAY_DCHECK(state_.running_total >= 0 && state_.promised_total >= 0, "more left than ran");
  state_.freed.push_back(freed);
  decision_.preempted.push_back({.sequence = Handle(index), .request = slot.facts.request});
}

void Plan::return_victims(std::size_t keep) {
  while (decision_.preempted.size() > keep) {
    const auto index = static_cast<SlotIndex>(decision_.preempted.back().sequence.value);
    CAUSEWAY_DCHECK(!state_.freed.empty(), "every victim has freed frames, if none");
    const Slot& slot = state_.table[index];
    state_.queue_of(slot).running.push_back(index);
    state_.running_total += 1;
    state_.promised_total += slot.promised;
    state_.references.add(kv_.table(slot.facts.request));
    available_ -= state_.freed.back();
    state_.freed.pop_back();
    decision_.preempted.pop_back();
  }
}

void Plan::finish() {
  for (const Preemption& preemption : decision_.preempted) {
    state_.wait_again(static_cast<SlotIndex>(preemption.sequence.value));
  }
  for (const Run& run : decision_.runs) {
    Slot& slot = state_.table[static_cast<SlotIndex>(run.sequence.value)];
    CAUSEWAY_DCHECK(slot.facts.running, "a victim does not run in the step that displaced it");
    slot.facts.computed = run.context + run.tokens;
    if (!run.samples) continue;
    slot.facts.known += Tokens(1);
    slot.pending += 1;
    state_.update_promise(state_.queue_of(slot), slot);
  }
  state_.put_off = put_off_;
  if (!decision_.model.valid()) return;
  ModelQueue& queue = state_.queue_of(decision_.model);
  (queue.streamed ? state_.streamed : state_.in_flight) += 1;
  queue.in_flight += 1;
}

}  // namespace causeway::schedule
