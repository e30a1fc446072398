#include "engine/kv_rotation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::engine {
namespace {

constexpr Nanos kFirstStep = millis(10);  // expected before one has been measured
constexpr Nanos kLogPause = seconds(1);
// How many steps' worth of copies out may be under way before eager copies wait. A copy that a
// sequence turns out to need waits for no more than these, and so does a sequence that must leave
// after them.
constexpr std::int64_t kStepsOut = 2;

bool is_out(const kv::KvCopy& copy) { return copy.direction == kv::KvCopy::Direction::kOut; }

void count(const kv::KvCopy& copy, request::KvCopyCounts& counts) {
  switch (copy.reason) {
    case kv::KvCopy::Reason::kEager: counts.eager_out += 1; break;
    case kv::KvCopy::Reason::kRotation:
      (is_out(copy) ? counts.rotation_out : counts.rotation_in) += 1;
      break;
    case kv::KvCopy::Reason::kPrefix: counts.prefix_in += 1; break;
  }
}

}  // namespace

KvRotation::KvRotation(const KvRotationOptions& options, kv::KvCache& kv, StepExecutor& executor)
    : options_(options), kv_(kv), executor_(executor), step_(kFirstStep) {
  CAUSEWAY_CHECK(options.frame.count > 0, "frames without a size");
  CAUSEWAY_CHECK(executor.capabilities().rotates, "the executor moves no KV");
}

Nanos KvRotation::step(const WeightsIn& weights) const {
  return weights.resident || pass_ == Nanos(0) ? step_ : pass_;
}

// Passes of streamed models run beside the steps of the others. During a step arrives as much of a
// pass's bytes as the step takes of the pass's time.
Bytes KvRotation::weights_in(const WeightsIn& weights, Nanos step) const {
  CAUSEWAY_DCHECK(step > Nanos(0), "a step that takes no time");
  if (pass_ <= step) return weights.arriving + weights.pass;
  const double share = to_seconds(step) / to_seconds(pass_);
  const double part = share * static_cast<double>(weights.pass.count);
  return weights.arriving + Bytes(static_cast<std::int64_t>(part));
}

schedule::RotationBudget KvRotation::budget(const kv::KvCopyRates& rates, Bytes weights_in,
                                            Nanos step) const {
  const kv::FrameCounts counts = kv_.counts();
  // Eager copies yield to copies of sequences that must leave (KvCache::take_copies), so they take
  // nothing from these.
  schedule::RotationBudget budget =
      schedule::rotation_budget({.out_rate = rates.out,
                                 .in_rate = rates.in,
                                 .step = step,
                                 .weights_in = weights_in,
                                 .eager_out = {},
                                 .frame = options_.frame,
                                 .frames = counts.usable() - counts.stranded},
                                options_.limits);
  // Sequences in host memory come back all the same: they have nothing to lose by it.
  if (rests_) budget.out = budget.exchange = 0;
  return budget;
}

schedule::RotationInputs KvRotation::inputs(const WeightsIn& weights, Nanos now) {
  rests_ = backoff_out_.rests(now) || backoff_in_.rests(now);
  const kv::KvCopyRates rates = executor_.copy_rates();
  const Nanos step = this->step(weights);
  const double in_a_step = rates.out * to_seconds(step) / static_cast<double>(options_.frame.count);
  constexpr double kMost = 1 << 20;
  CAUSEWAY_DCHECK(in_a_step >= 0, "a link moves less than nothing in a step");
  copies_out_max_ = rests_ ? 0 : static_cast<std::int64_t>(std::clamp(in_a_step, 1.0, kMost));
  return {.view = this,
          .budget = budget(rates, weights_in(weights, step), step),
          .rates = {.out_rate = rates.out, .in_rate = rates.in, .frame = options_.frame}};
}

void KvRotation::step_took(Nanos time, bool streamed) {
  constexpr std::int64_t kOfOld = 7;  // eighths: an unusual step changes little
  CAUSEWAY_DCHECK(time >= Nanos(0), "a step took less than no time");
  Nanos& expected = streamed ? pass_ : step_;
  if (expected == Nanos(0)) expected = time;
  expected = std::max(Nanos((expected.count * kOfOld + time.count) / (kOfOld + 1)), Nanos(1));
}

std::vector<kv::KvCopy>& KvRotation::take_copies() {
  copies_.clear();
  const std::int64_t room = kStepsOut * copies_out_max_ - std::ssize(out_);
  kv_.take_copies(std::clamp<std::int64_t>(room, 0, copies_out_max_), copies_);
  under_way_ += std::ssize(copies_);
  CAUSEWAY_DCHECK(under_way_ >= std::ssize(out_), "a copy out is under way and not counted");
  for (const kv::KvCopy& copy : copies_) {
    if (is_out(copy)) out_.insert(copy.id);
  }
  return copies_;
}

void KvRotation::add_copies(request::Batch& batch) {
  for (const kv::KvCopy& copy : take_copies()) {
    (is_out(copy) ? batch.copies_out : batch.copies_in).push_back(copy);
    count(copy, counts_);
  }
  for (const request::BatchEntry& entry : batch.entries) {
    const kv::CopyId until = kv_.arriving_until(entry.request);
    if (!until.valid()) continue;
    arriving_.insert(entry.request);
    if (!batch.copies_awaited.valid() || batch.copies_awaited < until) batch.copies_awaited = until;
  }
}

void KvRotation::begin_copies() {
  const std::vector<kv::KvCopy>& copies = take_copies();
  if (copies.empty()) return;
  for (const kv::KvCopy& copy : copies) count(copy, counts_);
  executor_.begin_copies(copies);
}

void KvRotation::follow(const std::vector<RequestId>& lost, Nanos now) {
  for (const RequestId sequence : lost) {
    if (leaving_.erase(sequence) > 0) backoff_out_.lost(now);
    if (arriving_.erase(sequence) > 0) backoff_in_.lost(now);
  }
  using kv::SequencePlace;
  const auto come = [&](RequestId sequence, SequencePlace on_its_way, SequencePlace there,
                        CopyBackoff& backoff) {
    if (!kv_.is_open(sequence)) return true;
    const SequencePlace place = kv_.place(sequence);
    if (place == there) backoff.moved();
    return place != on_its_way;
  };
  std::erase_if(leaving_, [&](RequestId sequence) {
    return come(sequence, SequencePlace::kLeaving, SequencePlace::kHost, backoff_out_);
  });
  std::erase_if(arriving_, [&](RequestId sequence) {
    return come(sequence, SequencePlace::kArriving, SequencePlace::kHbm, backoff_in_);
  });
}

std::vector<RequestId> KvRotation::poll(Nanos now) {
  std::vector<RequestId> lost;
  std::int64_t failed = 0;
  std::string why;
  for (const kv::KvCopyEnd& end : executor_.poll_copies()) {
    using Outcome = kv::KvCopyEnd::Outcome;
    if (end.outcome == Outcome::kGivenUp) {
      kv_.give_up_copy(end.copy, lost);
      given_up_.insert(end.copy);
    } else {
      kv_.copy_ended(end.copy, end.outcome == Outcome::kOk, lost);
      if (given_up_.erase(end.copy) > 0) continue;
    }
    CAUSEWAY_DCHECK(under_way_ > 0, "a copy ends that was not begun");
    --under_way_;
    out_.erase(end.copy);
    if (end.outcome == Outcome::kOk) continue;
    ++failed;
    why = end.why;
  }
  counts_.failed += failed;
  if (failed > 0) {
    spdlog::warn("{} copies of KV failed, and {} sequences are computed again: {}", failed,
                 lost.size(), why);
  }
  follow(lost, now);
  log_brought(now);
  return lost;
}

void KvRotation::brings(RequestId sequence, std::int64_t copies, Nanos now) {
  CAUSEWAY_DCHECK(copies >= 0, "a prefix comes in a negative number of blocks");
  const double rate = executor_.copy_rates().in;
  const double bytes = static_cast<double>(options_.frame.count * copies);
  brought_[sequence] = {.copies = copies, .began = now, .predicted = rate > 0 ? bytes / rate : 0};
}

void KvRotation::log_brought(Nanos now) {
  std::erase_if(brought_, [&](const auto& entry) {
    const auto& [sequence, brought] = entry;
    if (!kv_.is_open(sequence)) return true;
    const kv::SequencePlace place = kv_.place(sequence);
    if (place == kv::SequencePlace::kArriving) return false;
    if (place != kv::SequencePlace::kHbm || now < log_next_) return true;
    log_next_ = now + kLogPause;
    spdlog::debug("a prefix of {} blocks came from host memory in {:.2f} ms, {:.2f} ms predicted",
                  brought.copies, to_seconds(now - brought.began) * 1e3, brought.predicted * 1e3);
    return true;
  });
}

bool KvRotation::may_leave(RequestId sequence) const {
  return kv_.place(sequence) == kv::SequencePlace::kHbm;
}
bool KvRotation::may_return(RequestId sequence) const {
  return kv_.place(sequence) == kv::SequencePlace::kHost;
}
std::int64_t KvRotation::twins_available() const {
  return rests_ ? 0 : kv_.twin_counts().available();
}

schedule::RotateOutCost KvRotation::out_cost(RequestId sequence) const {
  const kv::RotateOutCost cost = kv_.rotate_out_cost(sequence);
  return {.twins = cost.twins, .copies = cost.copies, .frames = cost.frames};
}
schedule::RotateInCost KvRotation::in_cost(RequestId sequence) const {
  const kv::RotateInCost cost = kv_.rotate_in_cost(sequence);
  return {.frames = cost.frames, .copies = cost.copies};
}
schedule::PrefixCost KvRotation::prefix_cost(ModelId model, std::span<const TokenId> tokens) const {
  const kv::PrefixTiers tiers = kv_.prefix_tiers(model, tokens);
  return {.in_hbm = tiers.in_hbm,
          .in_all = tiers.in_all,
          .frames = tiers.frames,
          .copies = tiers.copies};
}

double KvRotation::prefill_rate(ModelId model) const {
  const auto found = prefill_rates_.find(model);
  return found == prefill_rates_.end() ? 0 : found->second;
}

}  // namespace causeway::engine
