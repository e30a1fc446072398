#include "engine/memory_border.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::engine {

using schedule::BorderSide;

namespace {

// After KV did not get memory, it does not try again for this long.
constexpr Nanos kRetry = seconds(10);

}  // namespace

MemoryBorder::MemoryBorder(const schedule::BorderRules& rules, kv::KvCache& kv,
                           weights::WeightCache& weights)
    : rules_(rules),
      kv_(kv),
      weights_(weights),
      places_(static_cast<std::size_t>(rules.kv_max), Place::kGone),
      retiring_since_(static_cast<std::size_t>(rules.kv_max)) {
  counts_[static_cast<std::size_t>(Place::kGone)] = rules.kv_max;
  const std::int64_t extents = kv.frames() / rules.frames_per_extent;
  CAUSEWAY_CHECK(extents * rules.frames_per_extent == kv.frames(), "KV has a part of an extent");
  CAUSEWAY_CHECK(extents >= rules.kv_min && extents <= rules.kv_max, "KV begins out of its bounds");
  for (std::int64_t extent = 0; extent < extents; ++extent) put(extent, Place::kUsable);
  total_ = extents + weights.residency().budget();
}

kv::FrameRun MemoryBorder::frames_of(std::int64_t extent) const {
  CAUSEWAY_DCHECK(extent >= 0 && extent < rules_.kv_max, "an extent that KV never has");
  return {FrameId(extent * rules_.frames_per_extent), rules_.frames_per_extent};
}

void MemoryBorder::put(std::int64_t extent, Place place) {
  Place& now = places_.at(static_cast<std::size_t>(extent));
  --counts_[static_cast<std::size_t>(now)];
  ++counts_[static_cast<std::size_t>(place)];
  CAUSEWAY_DCHECK(count(now) >= 0, "an extent left where it was not");
  now = place;
}

void MemoryBorder::change_budget(std::int64_t extents) {
  const std::int64_t budget = weights_.residency().budget();
  const Status changed = weights_.set_budget(budget + extents);
  CAUSEWAY_CHECK(changed.ok(), "the border took what pinned models hold");
}

void MemoryBorder::take_events(Nanos now) {
  for (const weights::WeightEvent& event : weights_.take_frame_events()) {
    CAUSEWAY_DCHECK(place_of(event.extent) == Place::kComing, "an extent comes that was not sent");
    if (event.outcome.ok()) {
      put(event.extent, Place::kUsable);
      kv_.add_frames(frames_of(event.extent));
      continue;
    }
    put(event.extent, Place::kGone);
    change_budget(1 + std::exchange(claimed_, 0));
    failed_until_ = now + kRetry;
    failure_ = event.outcome.error().message;
  }
}

void MemoryBorder::finish_retiring(Nanos now) {
  look_.reset();
  if (count(Place::kRetiring) == 0) return;
  for (std::int64_t extent = 0; extent < rules_.kv_max; ++extent) {
    if (place_of(extent) != Place::kRetiring) continue;
    if (!kv_.retired(frames_of(extent))) {
      take_back_stranded(extent, now);
      continue;
    }
    weights_.decommit_frames(extent, 1);
    put(extent, Place::kGone);
    change_budget(1);
  }
}

// Another extent may go in its place: KvCache::runs_to_retire() passes over it while it is held.
void MemoryBorder::take_back_stranded(std::int64_t extent, Nanos now) {
  CAUSEWAY_DCHECK(place_of(extent) == Place::kRetiring, "only what is to go is taken back");
  if (!kv_.stranded(frames_of(extent))) return;
  const Nanos until = retiring_since_[static_cast<std::size_t>(extent)] + kStrandedMax;
  if (now < until) {
    look_ = std::min(look_.value_or(until), until);
    return;
  }
  kv_.add_frames(frames_of(extent));
  put(extent, Place::kUsable);
  spdlog::warn(
      "{} KV frames cannot give their memory to weights: a copy between them and host memory was "
      "given up, and has not ended in {:.0f} s",
      rules_.frames_per_extent, to_seconds(kStrandedMax));
}

void MemoryBorder::decide(const schedule::FramesWanted& wanted, Nanos now) {
  take_events(now);
  finish_retiring(now);
  const kv::FrameCounts frames = kv_.counts();
  const weights::ExtentDemand extents = weights_.residency().extent_demand();
  const std::int64_t budget = weights_.residency().budget();
  const std::int64_t to_come = rules_.frames_per_extent * (claimed_ + count(Place::kComing));
  const schedule::BorderDecision decision =
      decide_border(rules_,
                    {.usable = frames.usable() + to_come,
                     .in_use = frames.in_use(),
                     .wanted = wanted.more,
                     .largest = wanted.largest},
                    {.budget = budget + count(Place::kRetiring),
                     .used = extents.used,
                     .idle = extents.idle,
                     .wanted = extents.wanted,
                     .largest = extents.largest,
                     .least = extents.least},
                    last_, moved_, now);
  starved_ = extents.largest > budget;
  again_ = decision.again;
  if (look_) again_ = std::min(again_.value_or(*look_), *look_);
  const schedule::BorderMove& move = decision.move;
  if (move.extents == 0) return;
  if (move.to == BorderSide::kKv && now < failed_until_) {
    again_ = failed_until_;
    return;
  }
  last_ = move;
  moved_ = now;
  move.to == BorderSide::kKv ? move_to_kv(move.extents) : move_to_weights(move.extents, now);
}

void MemoryBorder::move_to_kv(std::int64_t extents) {
  CAUSEWAY_DCHECK(extents > 0, "a move that moves nothing");
  for (std::int64_t e = 0; e < rules_.kv_max && extents > 0 && count(Place::kRetiring) > 0; ++e) {
    if (place_of(e) != Place::kRetiring) continue;
    kv_.add_frames(frames_of(e));
    put(e, Place::kUsable);
    --extents;
  }
  claimed_ += extents;
  change_budget(-extents);
}

void MemoryBorder::move_to_weights(std::int64_t extents, Nanos now) {
  CAUSEWAY_DCHECK(extents > 0 && claimed_ >= 0, "a move that moves nothing");
  const std::int64_t back = std::min(extents, claimed_);
  claimed_ -= back;
  change_budget(back);
  for (const kv::FrameRun& run : kv_.runs_to_retire(rules_.frames_per_extent, extents - back)) {
    kv_.retire_frames(run);
    const std::int64_t extent = run.first.value / rules_.frames_per_extent;
    put(extent, Place::kRetiring);
    retiring_since_[static_cast<std::size_t>(extent)] = now;
  }
  finish_retiring(now);
}

void MemoryBorder::hand_over() {
  if (claimed_ == 0) return;
  const std::int64_t budget = weights_.residency().budget();
  CAUSEWAY_DCHECK(budget >= 0 && claimed_ <= rules_.kv_max, "KV claims more than it may have");
  std::int64_t free = budget + claimed_ - weights_.residency().committed_extents();
  for (std::int64_t e = 0; e < rules_.kv_max && claimed_ > 0 && free > 0; ++e) {
    if (place_of(e) != Place::kGone) continue;
    weights_.commit_frames(e, 1);
    put(e, Place::kComing);
    --claimed_;
    --free;
  }
}

bool MemoryBorder::under_way() const {
  return claimed_ > 0 || count(Place::kComing) > 0 || count(Place::kRetiring) > 0 || again_;
}

std::optional<std::string> MemoryBorder::take_failure() {
  return count(Place::kComing) > 0 ? std::nullopt : std::exchange(failure_, std::nullopt);
}

std::int64_t MemoryBorder::frames_limit() const {
  const std::int64_t least = weights_.residency().extent_demand().least;
  return std::min(rules_.kv_max, total_ - least) * rules_.frames_per_extent;
}

Status MemoryBorder::check_integrity() const {
  const kv::FrameCounts frames = kv_.counts();
  if (frames.usable() != count(Place::kUsable) * rules_.frames_per_extent) {
    return corrupt("border: usable frames do not fill the extents that KV has");
  }
  const std::int64_t kv = rules_.kv_max - count(Place::kGone) + claimed_;
  const std::int64_t weights = weights_.residency().budget();
  if (kv + weights != total_) return corrupt("border: extents were lost or made");
  if (claimed_ < 0 || count(Place::kUsable) + count(Place::kComing) + claimed_ < rules_.kv_min) {
    return corrupt("border: KV has less than its least");
  }
  return {};
}

}  // namespace causeway::engine
