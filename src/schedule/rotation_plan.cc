#include "schedule/rotation_plan.h"

#include <algorithm>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/random.h"

namespace causeway::schedule {
namespace {

// The part of host memory, in B_xfer, that victims leave free when they make room for a sequence
// that was never in HBM. Otherwise host memory fills up, and then no sequence can leave HBM, so
// none outside can return.
constexpr std::int64_t kExchangesKept = 4;

// Running sequences lie anywhere in their table, so as many as this are prefetched into the caches.
constexpr std::size_t kPrefetched = 8;

}  // namespace

RotationPlan::RotationPlan(Scheduler::State& state, const kv::KvCache& kv,
                           const RotationInputs& inputs, Nanos now, Decision& decision)
    : state_(state), kv_(kv), inputs_(inputs), decision_(decision), now_(now) {
  const kv::FrameCounts counts = kv.counts();
  available_ = counts.available();
  // Some of the retiring frames may be quarantined, and these do not become free.
  coming_ = std::max<std::int64_t>(0, counts.coming() - counts.retiring);
  twins_ = inputs.view == nullptr ? 0 : inputs.view->twins_available();
  if (!state_.paid) {
    state_.copies_in.pay(inputs.budget.in);
    state_.copies_out.pay(inputs.budget.out);
    state_.paid = true;
  }
  growth_ = state_.running_total == 0 ? 0 : 1;
  for (const ModelQueue& queue : state_.queues) {
    growth_ += queue.running.size() / queue.tokens_per_block;
  }
  keep_ = 2 * growth_;
  keep_for_others();
}

// While a sequence outside finds no room and may displace others, the frames exchanged in two steps
// are kept free.
void RotationPlan::keep_for_others() {
  if (!state_.rotation_traits.displaces || !inputs_.budget.rotates()) return;
  const bool some_wait = state_.running_total + state_.waiting_total + state_.rotary_total >
                         state_.options.running_max;
  if (!some_wait && state_.outside_frames_total <= spare()) return;
  const Ranked* first = nullptr;
  for (const ModelQueue& queue : state_.queues) {
    const Ranked* leader = leader_of(queue, now_);
    if (leader == nullptr) continue;
    if (first == nullptr || leads(*leader, *first, now_)) first = leader;
  }
  if (first == nullptr || !displaces(state_.table[first->index])) return;
  for_whom_ = first->index;
  if (state_.running_total > 0) keep_ = std::max(keep_, 2 * inputs_.budget.exchange);
}

bool RotationPlan::try_model(ModelQueue& queue) {
  budget_ = state_.step_budget(queue, now_, spare());
  take_in(queue);
  take_out();
  run(queue);
  const bool runs = !decision_.runs.empty();
  CAUSEWAY_CHECK(runs || (decision_.admitted.empty() && decision_.rotated_in.empty()),
                 "a sequence that comes in must run");
  if (runs) decision_.model = queue.id;
  return runs;
}

// In strict order: it ends with the first sequence that does not fit.
void RotationPlan::take_in(ModelQueue& queue) {
  find_other_leaders(queue);
  bool prompt_tokens = true;
  while (true) {
    state_.rank_late(queue.ranked_waiting, now_);
    state_.rank_late(queue.ranked_rotary, now_);
    const Ranked* waiting = prompt_tokens ? queue.ranked_waiting.leader(now_) : nullptr;
    const Ranked* rotary = queue.ranked_rotary.leader(now_);
    const Ranked* first = waiting == nullptr ? rotary : waiting;
    if (waiting != nullptr && rotary != nullptr && leads(*rotary, *waiting, now_)) first = rotary;
    if (first == nullptr) return;
    const Entry entry = try_in(queue, *first);
    if (entry == Entry::kStopped) return;
    if (entry == Entry::kNoPromptTokens) prompt_tokens = false;
  }
}

// The first sequences of the other models do not change while sequences of one model come in.
void RotationPlan::find_other_leaders(const ModelQueue& queue) {
  state_.other_leaders.clear();
  if (state_.model_order.size() < 2) return;
  for (const std::int32_t i : state_.model_order) {
    const ModelQueue& other = state_.queues[static_cast<std::size_t>(i)];
    const Ranked* leader = &other == &queue ? nullptr : leader_of(other, now_);
    if (leader != nullptr) state_.other_leaders.push_back(leader);
  }
}

RotationPlan::Claims RotationPlan::claims_before(const Ranked& member) const {
  Claims claims{.frames = set_aside_};
  for (const Ranked* leader : state_.other_leaders) {
    if (!leads(*leader, member, now_)) continue;
    const Slot& slot = state_.table[leader->index];
    const ModelQueue& other = state_.queues[static_cast<std::size_t>(slot.model)];
    claims.frames += other.frames_for(slot.facts.known);
    claims.running += 1;
  }
  return claims;
}

RotationPlan::Entry RotationPlan::try_in(ModelQueue& queue, const Ranked& member) {
  const SlotIndex index = member.index;
  const Slot& slot = state_.table[index];
  if (slot.held) return Entry::kStopped;
  // Scored prompts need many steps, and others get the rest of each.
  if (!slot.facts.rotary && queue.backlog - queue.backlog_scored >= budget_) {
    set_aside_ += queue.frames_for(slot.facts.known);
    return Entry::kNoPromptTokens;
  }
  const Claims claims = claims_before(member);
  const bool may_displace = displaces(slot);
  // This is checked before its prefix is looked up, which takes a while.
  if (!may_displace && state_.running_total + claims.running >= state_.options.running_max) {
    return Entry::kStopped;
  }
  const std::int64_t allowance =
      may_displace ? std::max<std::int64_t>(0, inputs_.budget.exchange - exchanged_)
                   : -spare_frames(kv_);
  const std::int64_t room_now = available_ - state_.promised_total - claims.frames;
  std::int64_t room = spare() - claims.frames;
  // A sequence that is alone may use everything.
  if (state_.running_total == 0) room = room_now;
  const std::int64_t room_with = state_.running_total == 0 ? room : room + allowance;

  // A sequence that was found not to fit is not looked up again in every iteration.
  const bool known_need = queue.blocked_head == slot.facts.request &&
                          std::min(room_now, room_with) < queue.blocked_need &&
                          state_.running_total > 0 && ++queue.blocked_skips < kBlockedSkipsMax;
  const Need need = known_need ? Need{.frames = queue.blocked_need} : need_of(queue, index);
  if (need.frames > room_with || need.frames > room_now) {
    if (!known_need) {
      queue.blocked_head = slot.facts.request;
      queue.blocked_need = need.frames;
      queue.blocked_skips = 0;
    }
    if (need.frames > room_with && may_displace) save_for(index, need.frames + claims.frames);
    return Entry::kStopped;
  }
  if (need.copies > state_.copies_in.credit && (state_.running_total > 0 || !nothing_else())) {
    state_.copies_in.price = need.copies;
    return Entry::kStopped;
  }
  if (need.brings && brought_) return Entry::kStopped;
  if (state_.rotation_traits.predicts_peak && !peak_fits(index)) return Entry::kStopped;
  if (!has_place(index, claims.running, may_displace)) return Entry::kStopped;
  if (may_displace && need.frames > room) for_whom_ = index;
  enter(queue, index, need);
  return Entry::kIn;
}

// The sequence is larger than all that may be exchanged at once, so victims leave for it in every
// iteration.
void RotationPlan::save_for(SlotIndex index, std::int64_t frames) {
  if (!decision_.admitted.empty() || !decision_.rotated_in.empty()) return;
  for_whom_ = index;
  goal_ = frames;
}

bool RotationPlan::has_place(SlotIndex index, std::int64_t claimed, bool may_displace) {
  if (state_.running_total + claimed < state_.options.running_max) return true;
  if (!may_displace || state_.running_total < 2) return false;
  for_whom_ = index;
  return exchanged_ < inputs_.budget.exchange && take_victim(false);
}

RotationPlan::Need RotationPlan::need_of(ModelQueue& queue, SlotIndex index) const {
  const Slot& slot = state_.table[index];
  const std::int64_t whole = queue.frames_for(slot.wanted());
  if (slot.facts.rotary) {
    const RotateInCost cost = inputs_.view->in_cost(slot.facts.request);
    const std::int64_t later = whole - queue.frames_for(slot.facts.computed);
    return {.frames = cost.frames + later,
            .at_once = cost.frames,
            .copies = cost.copies,
            .computed = slot.facts.computed};
  }
  return need_of_prompt(queue, slot);
}

RotationPlan::Need RotationPlan::need_of_prompt(const ModelQueue& queue, const Slot& slot) const {
  const std::int64_t whole = queue.frames_for(slot.wanted());
  if (inputs_.view != nullptr && !slot.distrusts) {
    const PrefixCost found = inputs_.view->prefix_cost(queue.id, slot.prefix());
    if (found.copies == 0 || worth_bringing(queue.id, found)) {
      return {.frames = whole - found.in_all.count / queue.tokens_per_block + found.frames,
              .at_once = found.frames,
              .copies = found.copies,
              .computed = found.in_all,
              .brings = found.copies > 0};
    }
  }
  const Tokens cached = kv_.match_prefix(queue.id, slot.prefix());
  const std::int64_t hits = cached.count / queue.tokens_per_block;
  // Prefix frames that running sequences hold cost nothing. If one of these is a victim, what it
  // gives up is not counted, and covers the prefix.
  const std::int64_t evictable =
      hits == 0 ? 0 : kv_.cached_frames_of_prefix(queue.id, *slot.tokens);
  return {.frames = whole - hits + evictable, .at_once = evictable, .computed = cached};
}

bool RotationPlan::worth_bringing(ModelId model, const PrefixCost& found) const {
  if (inputs_.budget.in == 0) return false;
  if (found.copies > twins_) return false;  // victims of this decision need them
  const VictimCost either{.copies_in = found.copies,
                          .computed = found.in_all - found.in_hbm,
                          .prefill_rate = inputs_.view->prefill_rate(model)};
  return !cheaper_to_recompute(either, inputs_.rates);
}

FutureUse RotationPlan::future_of(const Slot& slot) const {
  const ModelQueue& queue = state_.queues[static_cast<std::size_t>(slot.model)];
  const auto per_block = static_cast<double>(queue.tokens_per_block);
  // Drawn once for each request, so that its prediction changes only when it outlives others.
  const auto request = static_cast<std::uint64_t>(slot.facts.request.value);
  const double quantile = static_cast<double>(mix64(request) >> 11) * 0x1.0p-53;
  const Tokens most = slot.facts.output_expected;
  const Tokens length =
      std::min(most, state_.lengths.longer_than(slot.facts.output, quantile, most));
  return {.frames = static_cast<double>(queue.frames_for(slot.facts.known)),
          .frames_per_step = 1.0 / per_block,
          .steps_left = std::max<std::int64_t>(0, (length - slot.facts.output).count)};
}

bool RotationPlan::peak_fits(SlotIndex index) {
  if (state_.running_total == 0) return true;
  std::vector<FutureUse>& future = state_.future;
  future.clear();
  for (const ModelQueue& queue : state_.queues) {
    for (const SlotIndex i : queue.running.members()) future.push_back(future_of(state_.table[i]));
  }
  future.push_back(future_of(state_.table[index]));
  const std::int64_t there = kv_.frames() - kv_.counts().stranded;
  return future_peak(future) <= static_cast<double>(there - keep_);
}

void RotationPlan::enter(ModelQueue& queue, SlotIndex index, const Need& need) {
  Slot& slot = state_.table[index];
  CAUSEWAY_DCHECK(!slot.held && need.frames >= need.at_once, "one that is held does not come in");
  state_.leave_outside(index);
  const RequestId request = slot.facts.request;
  if (slot.facts.rotary) {
    decision_.rotated_in.push_back({.sequence = Handle(index), .request = request});
  } else {
    decision_.admitted.push_back({.sequence = Handle(index),
                                  .request = request,
                                  .cached = need.computed,
                                  .brings = need.brings});
  }
  state_.copies_in.credit = std::max<std::int64_t>(0, state_.copies_in.credit - need.copies);
  if (need.brings) {
    brought_ = true;
    twins_ -= need.copies;
  }
  slot.facts.rotary = false;
  slot.facts.running = true;
  slot.facts.running_since = now_;
  slot.facts.computed = need.computed;
  slot.frames = queue.frames_for(need.computed);
  slot.just_admitted = true;
  available_ -= need.at_once;
  state_.enter_running(index);
  state_.update_promise(queue, slot);
}

void RotationPlan::take_out() {
  while (state_.running_total > 1) {
    // The growth of running sequences is counted once for all, not for each displacement.
    const bool for_growth = spare() + keep_ < 2 * growth_;
    const bool for_others =
        for_whom_ >= 0 && spare() < goal_ && exchanged_ < inputs_.budget.exchange;
    if (!for_growth && !for_others) return;
    if (!take_victim(for_growth)) return;
  }
}

bool RotationPlan::displaces(const Slot& candidate) const {
  if (!state_.rotation_traits.displaces || !inputs_.budget.rotates()) return false;
  if (!may_rotate() && !others_may_lose()) return false;
  const SlotIndex victim = least_urgent();
  if (victim < 0) return false;
  const Slot& slot = state_.table[victim];
  return state_.rotation->displaces(candidate.facts, slot.facts, state_.running_lag(slot, now_),
                                    now_);
}

bool RotationPlan::may_rotate() const {
  return state_.options.preemption != PreemptionKind::kRecompute && inputs_.view != nullptr;
}

// Only priorities are strict: with them no sequence returns for which another has lost its place.
bool RotationPlan::others_may_lose() const {
  return state_.options.policy == PolicyKind::kPriority;
}

bool RotationPlan::may_go(const ModelQueue& queue, const Slot& slot) const {
  // A sequence that a streamed step computes is not displaced.
  if (queue.streamed && queue.in_flight > 0) return false;
  // Two steps compute the same sequence only when a streamed model's step is decided beside
  // another. The cache does not know what the second writes before the first has ended.
  if (slot.just_admitted || slot.voided || slot.in_flight > 1) return false;
  // Its last token is in flight, so it ends by itself.
  if (slot.owed == 0) return false;
  return inputs_.view == nullptr || inputs_.view->may_leave(slot.facts.request);
}

SlotIndex RotationPlan::least_urgent_of(const ModelQueue& queue) const {
  for (std::int64_t i = queue.running.size() - 1; i >= 0; --i) {
    if (may_go(queue, state_.table[queue.running[i]])) return queue.running[i];
  }
  return -1;
}

SlotIndex RotationPlan::least_urgent() const {
  if (least_ == kUnknown) least_ = find_least_urgent();
  return least_;
}

SlotIndex RotationPlan::find_least_urgent() const {
  SlotIndex least = -1;
  for (const ModelQueue& queue : state_.queues) {
    const SlotIndex index = least_urgent_of(queue);
    if (index < 0) continue;
    if (least < 0) {
      least = index;
      continue;
    }
    const double lag = state_.running_lag(state_.table[index], now_);
    const double least_lag = state_.running_lag(state_.table[least], now_);
    const bool less = state_.rotation_traits.ages && lag != least_lag
                          ? lag < least_lag
                          : state_.table.before(least, index);
    if (less) least = index;
  }
  return least;
}

bool RotationPlan::keeps_before(SlotIndex a, SlotIndex b) const {
  // The time that a sequence has run starts anew whenever it returns, so by that order two would
  // displace each other for ever.
  if (!state_.rotation_traits.longest_runs_first) return state_.table.before(a, b);
  const SequenceFacts& x = state_.table[a].facts;
  const SequenceFacts& y = state_.table[b].facts;
  return std::pair(x.arrival, x.request) < std::pair(y.arrival, y.request);
}

SlotIndex RotationPlan::next_to_lose() const {
  SlotIndex first = -1;
  SlotIndex next = -1;
  for (const ModelQueue& queue : state_.queues) {
    for (const SlotIndex index : queue.running.members()) {
      if (first < 0 || keeps_before(index, first)) first = index;
      if (next >= 0 && !keeps_before(next, index)) continue;
      if (may_go(queue, state_.table[index])) next = index;
    }
  }
  return next == first ? -1 : next;
}

bool RotationPlan::take_victim(bool for_growth) {
  const SlotIndex index = least_urgent();
  if (index < 0) return false;
  const Slot& slot = state_.table[index];
  if (!for_growth && !state_.rotation->displaces(state_.table[for_whom_].facts, slot.facts,
                                                 state_.running_lag(slot, now_), now_)) {
    return false;
  }
  const bool may_lose = for_growth || others_may_lose();
  const bool faster = may_rotate() && may_lose &&
                      state_.options.preemption == PreemptionKind::kAuto && recompute_is_faster();
  if (may_rotate() && !faster) {
    const Exit exit = rotate(index, for_growth);
    if (exit != Exit::kNoRoom) return exit == Exit::kGone;
  }
  return may_lose && recompute();
}

RotateOutCost RotationPlan::out_cost(SlotIndex index) const {
  const Slot& slot = state_.table[index];
  if (inputs_.view != nullptr) return inputs_.view->out_cost(slot.facts.request);
  return {.twins = 0, .copies = 0, .frames = slot.frames};
}

RotationPlan::Exit RotationPlan::rotate(SlotIndex index, bool for_growth) {
  const RotateOutCost cost = out_cost(index);
  const auto never_ran = [](const SequenceFacts& facts) {
    return !facts.rotary && !facts.answered;
  };
  const bool newcomer = !for_growth && never_ran(state_.table[for_whom_].facts);
  const std::int64_t kept = newcomer ? kExchangesKept * inputs_.budget.exchange : 0;
  if (cost.twins + kept > twins_) return Exit::kNoRoom;
  if (cost.copies > state_.copies_out.credit && !stuck_) {
    state_.copies_out.price = cost.copies;
    return Exit::kNoCredit;
  }
  state_.copies_out.credit = std::max<std::int64_t>(0, state_.copies_out.credit - cost.copies);
  twins_ -= cost.twins;
  CAUSEWAY_DCHECK(twins_ >= 0, "a victim takes twins that are not there");
  decision_.rotated_out.push_back(
      {.sequence = Handle(index), .request = state_.table[index].facts.request});
  gone(index, cost.frames);
  return Exit::kGone;
}

bool RotationPlan::recompute_is_faster() const {
  const SlotIndex index = next_to_lose();
  if (index < 0) return false;
  const Slot& slot = state_.table[index];
  const VictimCost either{.copies_out = out_cost(index).copies,
                          .copies_in = slot.frames,
                          .computed = slot.facts.computed,
                          .prefill_rate = inputs_.view->prefill_rate(slot.facts.model)};
  return cheaper_to_recompute(either, inputs_.rates);
}

bool RotationPlan::recompute() {
  const SlotIndex index = next_to_lose();
  if (index < 0) return false;
  decision_.preempted.push_back(
      {.sequence = Handle(index), .request = state_.table[index].facts.request});
  gone(index, out_cost(index).frames);
  return true;
}

void RotationPlan::gone(SlotIndex index, std::int64_t frames) {
  CAUSEWAY_DCHECK(frames >= 0 && !state_.table[index].just_admitted,
                  "a sequence that has just come in stays");
  state_.leave_running(index);
  least_ = kUnknown;
  coming_ += frames;
  exchanged_ += frames;
}

std::int64_t RotationPlan::give_frames(const ModelQueue& queue, Slot& slot, std::int64_t tokens) {
  const std::int64_t computed = slot.facts.computed.count;
  const std::int64_t fitting = (slot.frames + available_) * queue.tokens_per_block - computed;
  if (fitting < 1) {
    CAUSEWAY_CHECK(!slot.just_admitted, "a sequence that came in finds no frame");
    stalled_ = true;
    return 0;
  }
  tokens = std::min(tokens, fitting);
  const std::int64_t frames = queue.frames_for(Tokens(computed + tokens));
  available_ -= std::max<std::int64_t>(0, frames - slot.frames);
  slot.frames = std::max(slot.frames, frames);
  return tokens;
}

// One token of the step is left for every sequence; tokens beyond that go to the first.
inline void RotationPlan::add_run(ModelQueue& queue, SlotIndex index, std::int64_t others) {
  Slot& slot = state_.table[index];
  if (slot.owed == 0 || slot.held) return;  // a step in flight samples its last token
  std::int64_t tokens = std::min(slot.owed, budget_ - others);
  if (slot.scores) tokens = std::min(tokens, 1 + spare_rows_);
  const std::int64_t computed = slot.facts.computed.count;
  if (computed + tokens > slot.frames * queue.tokens_per_block) {
    tokens = give_frames(queue, slot, tokens);
    if (tokens == 0) return;
  }
  CAUSEWAY_CHECK(tokens >= 1 && tokens <= budget_, "a run outside the step's budget");
  const bool samples = computed + tokens == slot.facts.known.count;
  decision_.runs.push_back({.sequence = Handle(index),
                            .request = slot.facts.request,
                            .context = Tokens(computed),
                            .tokens = Tokens(tokens),
                            .samples = samples});
  budget_ -= tokens;
  if (slot.scores) spare_rows_ -= tokens - 1;
  slot.in_flight += 1;
  slot.facts.computed += Tokens(tokens);
  slot.facts.known += Tokens(samples ? 1 : 0);
  slot.pending += samples ? 1 : 0;
  state_.update_promise(queue, slot);
}

void RotationPlan::run(ModelQueue& queue) {
  const std::vector<SlotIndex>& members = queue.running.members();
  const bool backwards = state_.rotation_traits.longest_runs_first;
  const std::size_t count = members.size();
  const auto member = [&](std::size_t i) { return members[backwards ? count - 1 - i : i]; };
  decision_.runs.reserve(count);
  // A sequence that has come in from host memory must compute a token, too.
  budget_ = std::max(budget_, static_cast<std::int64_t>(count));
  spare_rows_ = spare_logit_rows(state_.options.running_max, state_.running_total);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kPrefetched < count) state_.table.prefetch(member(i + kPrefetched));
    add_run(queue, member(i), static_cast<std::int64_t>(count - 1 - i));
  }
}

void RotationPlan::finish() {
  const bool runs = decision_.model.valid();
  if (!runs && stalled_ && nothing_else() && coming_ == 0) {
    // All sequences lack frames and nothing will free any: one leaves, whatever that costs.
    stuck_ = true;
    if (state_.running_total > 1) take_victim(true);
  }
  for (const Preemption& one : decision_.preempted) {
    state_.wait_again(static_cast<SlotIndex>(one.sequence.value));
  }
  for (const Rotation& one : decision_.rotated_out) {
    const auto index = static_cast<SlotIndex>(one.sequence.value);
    Slot& slot = state_.table[index];
    slot.frames = 0;
    slot.facts.running = false;
    slot.facts.rotary = true;
    state_.enter_outside(index);
  }
  for (const Admission& one : decision_.admitted) {
    state_.table[static_cast<SlotIndex>(one.sequence.value)].just_admitted = false;
  }
  for (const Rotation& one : decision_.rotated_in) {
    state_.table[static_cast<SlotIndex>(one.sequence.value)].just_admitted = false;
  }
  if (!runs) return;
  state_.paid = false;
  ModelQueue& queue = state_.queue_of(decision_.model);
  (queue.streamed ? state_.streamed : state_.in_flight) += 1;
  queue.in_flight += 1;
}

}  // namespace causeway::schedule
