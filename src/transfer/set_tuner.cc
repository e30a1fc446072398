#include "transfer/set_tuner.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

// Adding a link may slow the others down (a far socket), but not by more than this.
constexpr double kLossByAdding = 0.2;
constexpr double kLossByAll = 0.35;

}  // namespace

SetTuner::SetTuner(SetTunerOptions options, Start start)
    : options_(options),
      start_(std::move(start)),
      base_(start_.best),
      rest_(options.rest),
      seen_(start_.alone.size()) {
  CAUSEWAY_CHECK(!base_.empty() && options_.window_chunks > 0);
  open_later();
}

// The first ends belong to chunks that began before the change: as many as all links had
// outstanding.
void SetTuner::open_later() {
  open_ = false;
  settling_ = 2 * std::max(base_.count(), current().count());
  CAUSEWAY_DCHECK(settling_ > 0, "a set without a link");
}

void SetTuner::pause() {
  const bool again = std::exchange(paused_, true);
  if (trial_ && !again && ++trial_->pauses >= options_.pauses) give_up_trial();
  open_later();
}

// The trial has cost at most what was expected, by the bytes that it moved.
void SetTuner::give_up_trial() {
  CAUSEWAY_DCHECK(trial_.has_value(), "no trial is given up");
  credit_ -= trial_->loss * static_cast<double>(trial_->bytes.count);
  tried_.insert(trial_->links);
  trial_.reset();
}

Bytes SetTuner::total() const {
  Bytes total;
  for (const Seen& seen : seen_) total += seen.bytes;
  return total;
}

double SetTuner::rate() const {
  double rate = 0;
  for (const Seen& seen : seen_) {
    if (seen.last <= seen.first) continue;
    rate += static_cast<double>(seen.bytes.count) / to_seconds(seen.last - seen.first);
  }
  return rate;
}

void SetTuner::moved(int link, Bytes bytes, Nanos now) {
  paused_ = false;
  if (trial_) {
    trial_->bytes += bytes;
  } else {
    credit_ = std::min(credit_ + options_.regret * static_cast<double>(bytes.count),
                       static_cast<double>(options_.credit_max.count));
  }
  CAUSEWAY_DCHECK(link >= 0 && link < std::ssize(seen_) && bytes > Bytes(0), "no such chunk");
  if (settling_ > 0) {
    --settling_;
    return;
  }
  if (!open_) return begin_window(now);
  Seen& seen = seen_[static_cast<std::size_t>(link)];
  if (seen.any) {
    seen.bytes += bytes;
  } else {
    seen.first = now;
    seen.any = true;
  }
  seen.last = now;
  if (++chunks_ < (options_.window_chunks + 1) * current().count() || now <= began_) return;
  end_window(rate(), now);
}

void SetTuner::begin_window(Nanos now) {
  open_ = true;
  began_ = now;
  chunks_ = 0;
  std::fill(seen_.begin(), seen_.end(), Seen{});
}

void SetTuner::end_window(double rate, Nanos now) {
  if (trial_) {
    // The links had settled for about as long as the window lasts.
    credit_ -= 2 * std::max(0.0, base_rate_ - rate) * to_seconds(now - began_);
    if (rate > options_.gain * base_rate_) {
      trial_->pauses = 0;
      if (!std::exchange(trial_->paid, true)) return begin_window(now);
      base_ = trial_->links;
      base_rates_.assign(2, rate);
      tried_.clear();
      rest_ = options_.rest;
    } else {
      tried_.insert(trial_->links);
    }
    open_later();  // the next window tells what the base gives now
    trial_.reset();
    return;
  }
  CAUSEWAY_DCHECK(rate >= 0 && now >= began_, "a window moved less than nothing");
  base_rates_.push_back(rate);
  if (std::ssize(base_rates_) > options_.windows) base_rates_.pop_front();
  if (std::ssize(base_rates_) < options_.windows) return begin_window(now);
  base_rate_ = *std::max_element(base_rates_.begin(), base_rates_.end());
  const bool content = start_.promised > 0 && base_rate_ >= options_.content * start_.promised;
  const bool home = base_ == start_.best;
  if (!content && content_) {  // what asking for it cost in rest says nothing here
    rest_ = options_.rest;
    rests_until_ = now;
  }
  content_ = content;
  if (content && home) tried_.clear();
  if (!(content && home) && now >= rests_until_) start_trial(now, content);
  if (!trial_) begin_window(now);
}

void SetTuner::start_trial(Nanos now, bool content) {
  const std::optional<Trial> next = content ? way_home() : next_change();
  if (!next) {
    tried_.clear();
    rests_until_ = now + rest_;
    rest_ = std::min(rest_ * 2, options_.rest_max);
    return;
  }
  if (2 * next->loss * static_cast<double>(total().count) > credit_) return;  // it saves first
  CAUSEWAY_DCHECK(!trial_ && !(next->links == base_), "a trial is of another set than the base");
  trial_ = *next;
  open_later();
}

// The set that a disturbance led to may be good enough, and still worse than the map's set now.
std::optional<SetTuner::Trial> SetTuner::way_home() const {
  if (tried_.contains(start_.best)) return std::nullopt;
  return Trial{start_.best, kLossByAll};
}

// Candidates: all links, the map's set, the fastest link to add, the link to remove that moved
// least.
std::optional<SetTuner::Trial> SetTuner::next_change() const {
  std::optional<Trial> best;
  double best_rank = 0;  // greater is better
  const auto consider = [&](LinkSet links, double loss, double rank) {
    if (links == base_ || links.empty() || tried_.contains(links)) return;
    if (best && rank <= best_rank) return;
    best = Trial{links, loss};
    best_rank = rank;
  };
  constexpr double kAllRank = 1e19, kBestRank = 1e18, kAddRank = 1e17;
  consider(base_ | start_.reach, kLossByAll, kAllRank);
  consider(start_.best, kLossByAll, kBestRank);
  const double moved = std::max(1.0, static_cast<double>(total().count));
  for (int link = 0; link < static_cast<int>(seen_.size()); ++link) {
    const auto l = static_cast<std::size_t>(link);
    if (!base_.has(link) && start_.reach.has(link)) {
      consider(base_.with(link), kLossByAdding, kAddRank + start_.alone[l]);
    } else if (base_.has(link)) {
      const double share = static_cast<double>(seen_[l].bytes.count) / moved;
      consider(base_.without(link), share, 2 - share);
    }
  }
  return best;
}

}  // namespace causeway::transfer
