#include "fleet/alpha_tuner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace causeway::fleet {
namespace {

// Written so that NaN fails.
bool share_above_zero(double value) { return value > 0 && value <= 1; }
bool share(double value) { return value >= 0 && value <= 1; }
bool measure(double value) { return value >= 0 && std::isfinite(value); }

}  // namespace

Status check_alpha_tuner(const AlphaTunerOptions& options) {
  if (!share(options.alpha) || !share(options.tau)) {
    return invalid_argument("the tuner's alpha and tau are from 0 to 1");
  }
  if (!share_above_zero(options.ema) || !share_above_zero(options.eta_fast)) {
    return invalid_argument("the tuner's average and steps are above 0, and 1 at most");
  }
  if (options.eta_slow > 0 && options.eta_slow <= options.eta_fast) return {};
  return invalid_argument("the tuner's slow step is above 0, and at most the fast one");
}

double utilisation(Bytes bytes, Nanos time, double rate) {
  if (time <= Nanos(0) || !(rate > 0)) return 0;
  return static_cast<double>(bytes.count) / to_seconds(time) / rate;
}

AlphaTuner::AlphaTuner(const AlphaTunerOptions& options)
    : options_(options), alpha_(options.alpha) {
  CAUSEWAY_CHECK(check_alpha_tuner(options).ok(), "the tuner's options are out of range");
}

double AlphaTuner::update(const GemmObservation& seen) {
  if (!measure(seen.hbm_utilisation) || !measure(seen.link_utilisation)) return alpha_;
  if (seen.latency <= Nanos(0)) return alpha_;
  const Average now{.latency = to_seconds(seen.latency),
                    .budget = to_seconds(seen.budget),
                    .hbm = seen.hbm_utilisation,
                    .link = seen.link_utilisation};
  if (!average_) average_ = now;
  const auto smooth = [&](double& value, double fresh) { value += options_.ema * (fresh - value); };
  smooth(average_->latency, now.latency);
  smooth(average_->budget, now.budget);
  smooth(average_->hbm, now.hbm);
  smooth(average_->link, now.link);
  const double imbalance = average_->link - average_->hbm;
  if (std::abs(imbalance) <= options_.tau) return alpha_;
  const bool late = average_->latency > average_->budget;
  const double step = late ? options_.eta_fast : options_.eta_slow;
  alpha_ = std::clamp(alpha_ - std::copysign(step, imbalance), 0.0, 1.0);
  return alpha_;
}

Status check_way_tuner(const WayTunerOptions& options) {
  if (!share_above_zero(options.ema) || !share(options.margin) || options.margin == 1) {
    return invalid_argument("the average of ways is above 0 to 1, their margin from 0 to below 1");
  }
  if (options.probe_every >= 0 && options.probe_max >= 1) return {};
  return invalid_argument(
      "ways are probed every 0 or more products, up to 1 or more times as long");
}

WayTuner::WayTuner(const WayTunerOptions& options, std::span<const double> predicted)
    : options_(options), measured_at_(predicted.size(), 0) {
  CAUSEWAY_CHECK(check_way_tuner(options).ok(), "the options of ways are out of range");
  for (const double seconds : predicted) {
    seconds_.push_back(measure(seconds) ? seconds : 0);
    if (seconds_.back() == 0) continue;
    const double best = seconds_[best_];
    if (best == 0 || seconds_.back() < best) best_ = seconds_.size() - 1;
  }
  CAUSEWAY_CHECK(!seconds_.empty() && seconds_[best_] > 0, "no way can be used");
}

std::optional<std::size_t> WayTuner::next_probe() const {
  std::optional<std::size_t> oldest;
  for (std::size_t way = 0; way < seconds_.size(); ++way) {
    if (way == best_ || seconds_[way] == 0) continue;
    if (seconds_[way] > options_.probe_max * seconds_[best_]) continue;
    if (!oldest || measured_at_[way] < measured_at_[*oldest]) oldest = way;
  }
  return oldest;
}

void WayTuner::measured(Nanos took) {
  if (took <= Nanos(0)) return;
  ++measurements_;
  const std::size_t measured = way();
  double& seconds = seconds_[measured];
  // What was predicted, or measured long ago, counts for nothing beside what is measured.
  const bool known = measured == best_ && measured_at_[measured] > 0;
  seconds = known ? seconds + options_.ema * (to_seconds(took) - seconds) : to_seconds(took);
  measured_at_[measured] = measurements_;
  probing_.reset();
  for (std::size_t other = 0; other < seconds_.size(); ++other) {
    if (seconds_[other] > 0 && seconds_[other] < (1 - options_.margin) * seconds_[best_]) {
      best_ = other;
    }
  }
  const bool due = options_.probe_every > 0 && measurements_ % options_.probe_every == 0;
  if (due) probing_ = next_probe();
}

}  // namespace causeway::fleet
