// Admission by predicted memory (the Past-Future scheduler of LightLLM): lengths of answers are
// drawn from those that have ended lately, and a request is admitted only if the largest future sum
// of frames fits. A baseline; pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace causeway::schedule {

// The lengths of the latest answers that ended.
class LengthHistory {
 public:
  explicit LengthHistory(std::int64_t window = 1'000) : window_(window) {}

  void record(Tokens output);
  // The predicted length of an answer that has `output` tokens already: among the recorded lengths
  // that are larger, the one at `quantile` ∈ [0, 1); `otherwise` if none is.
  Tokens longer_than(Tokens output, double quantile, Tokens otherwise) const;
  std::int64_t size() const { return static_cast<std::int64_t>(sorted_.size()); }

 private:
  std::int64_t window_;
  std::int64_t next_ = 0;  // in recent_: the oldest, once the window is full
  std::vector<Tokens> recent_;
  std::vector<Tokens> sorted_;
};

struct FutureUse {
  double frames = 0;            // now
  double frames_per_step = 0;   // more with each token
  std::int64_t steps_left = 0;  // then all are free
};

// The largest sum over all of them at any time from now on. Sorts them.
double future_peak(std::span<FutureUse> uses);

}  // namespace causeway::schedule
