// Which of n is asked for next, when some are asked for often and most seldom.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace causeway::bench {

class Zipf {
 public:
  // The i-th, from 0, is chosen (i + 1)^-exponent as often as the first.
  Zipf(std::int64_t count, double exponent) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      cumulative_.push_back(sum += std::pow(static_cast<double>(i + 1), -exponent));
    }
  }

  std::int64_t choose(Random& random) const {
    const double draw = random.uniform() * cumulative_.back();
    const auto chosen = std::upper_bound(cumulative_.begin(), cumulative_.end(), draw);
    return std::min<std::int64_t>(chosen - cumulative_.begin(), std::ssize(cumulative_) - 1);
  }

 private:
  std::vector<double> cumulative_;
};

}  // namespace causeway::bench
