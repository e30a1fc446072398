#include "schedule/future_peak.h"

#include <algorithm>

#include "base/dcheck.h"

namespace causeway::schedule {

void LengthHistory::record(Tokens output) {
  CAUSEWAY_DCHECK(window_ > 0 && output.count >= 0, "an answer of a negative length");
  if (std::ssize(recent_) < window_) {
    recent_.push_back(output);
  } else {
    Tokens& oldest = recent_[static_cast<std::size_t>(next_)];
    next_ = (next_ + 1) % window_;
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), oldest));
    oldest = output;
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), output), output);
}

Tokens LengthHistory::longer_than(Tokens output, double quantile, Tokens otherwise) const {
  const auto first = std::upper_bound(sorted_.begin(), sorted_.end(), output);
  const auto longer = static_cast<double>(sorted_.end() - first);
  if (longer == 0) return otherwise;
  CAUSEWAY_DCHECK(quantile >= 0 && quantile < 1, "a quantile that is not below 1");
  return first[static_cast<std::ptrdiff_t>(quantile * longer)];
}

double future_peak(std::span<FutureUse> uses) {
  std::sort(uses.begin(), uses.end(),
            [](const FutureUse& a, const FutureUse& b) { return a.steps_left > b.steps_left; });
  // When one request ends, those that last longer remain, each grown by as many steps.
  double peak = 0, frames = 0, frames_per_step = 0;
  for (const FutureUse& use : uses) {
    frames += use.frames;
    frames_per_step += use.frames_per_step;
    peak = std::max(peak, frames + frames_per_step * static_cast<double>(use.steps_left));
  }
  return peak;
}

}  // namespace causeway::schedule
