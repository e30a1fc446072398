#include "transfer/set_tuner.h"

#include <algorithm>
#include <utility>

namespace causeway::transfer {

SetTuner::SetTuner(SetTunerOptions options, Start start)
    : options_(options),
      start_(std::move(start)),
      base_(start_.best),
      rest_(options.rest),
      settling_(options.settle_chunks),
      bytes_(start_.alone.size()) {
  CAUSEWAY_CHECK(!base_.empty() && options_.window_chunks > 0);
}

void SetTuner::pause() {
  open_ = false;
  settling_ = options_.settle_chunks;
}

void SetTuner::moved(int link, Bytes bytes, Nanos now) {
  if (settling_ > 0) {
    --settling_;
    return;
  }
  if (!open_) return begin_window(now);
  bytes_[static_cast<std::size_t>(link)] += bytes;
  if (++chunks_ < options_.window_chunks || now <= began_) return;
  Bytes total;
  for (const Bytes part : bytes_) total += part;
  end_window(static_cast<double>(total.count) / to_seconds(now - began_), now);
}

void SetTuner::begin_window(Nanos now) {
  open_ = true;
  began_ = now;
  chunks_ = 0;
  std::fill(bytes_.begin(), bytes_.end(), Bytes(0));
}

void SetTuner::end_window(double rate, Nanos now) {
  if (trial_) {
    if (rate > options_.gain * base_rate_) {
      base_ = trial_->links;
      tried_.clear();
      rest_ = options_.rest;
    } else {
      tried_.insert(trial_->changed);
    }
    trial_.reset();
    settling_ = options_.settle_chunks;
    open_ = false;
    return;  // the next window tells what the base gives now
  }
  base_rate_ = rate;
  const bool content = start_.promised > 0 && rate >= options_.content * start_.promised;
  if (content) tried_.clear();
  if (!content && now >= rests_until_) start_trial(now);
  if (!trial_) begin_window(now);
}

void SetTuner::start_trial(Nanos now) {
  const std::optional<int> link = next_change();
  if (!link) {
    tried_.clear();
    rests_until_ = now + rest_;
    rest_ = std::min(rest_ * 2, options_.rest_max);
    return;
  }
  trial_ = Trial{base_.has(*link) ? base_.without(*link) : base_.with(*link), *link};
  settling_ = options_.settle_chunks;
  open_ = false;
}

// First the fastest link to add, then the one to leave out that moved least.
std::optional<int> SetTuner::next_change() const {
  std::optional<int> add, drop;
  for (int link = 0; link < static_cast<int>(bytes_.size()); ++link) {
    if (tried_.contains(link)) continue;
    const auto l = static_cast<std::size_t>(link);
    if (!base_.has(link) && start_.reach.has(link)) {
      if (!add || start_.alone[l] > start_.alone[static_cast<std::size_t>(*add)]) add = link;
    } else if (base_.has(link) && base_.count() > 1) {
      if (!drop || bytes_[l] < bytes_[static_cast<std::size_t>(*drop)]) drop = link;
    }
  }
  return add ? add : drop;
}

}  // namespace causeway::transfer
