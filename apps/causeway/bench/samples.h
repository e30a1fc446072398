// Values of one figure over the runs of a benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace causeway::bench {

struct Samples {
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  void add(const Samples& others) {
    values.insert(values.end(), others.values.begin(), others.values.end());
  }
  bool empty() const { return values.empty(); }
  std::int64_t count() const { return std::ssize(values); }

  // The value that `share` of all are not above, 0 to 1: 0 is the least, 1 the most. None: 0.
  double at(double share) const {
    if (values.empty()) return 0;
    auto sorted = values;
    const auto place = sorted.begin() + std::lround(share * static_cast<double>(sorted.size() - 1));
    std::nth_element(sorted.begin(), place, sorted.end());
    return *place;
  }
  double median() const { return at(0.5); }
  double least() const { return at(0); }
  double most() const { return at(1); }
};

}  // namespace causeway::bench
