// Values of one figure over the runs of a benchmark.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantile.h"

namespace causeway::bench {

struct Samples {
  std::vector<double> values;

  void add(double value) { values.push_back(value); }
  void add(const Samples& others) {
    values.insert(values.end(), others.values.begin(), others.values.end());
  }
  bool empty() const { return values.empty(); }
  std::int64_t count() const { return std::ssize(values); }

  // As quantile(); of none, 0.
  double at(double share) const { return values.empty() ? 0 : quantile(values, share); }
  double median() const { return at(0.5); }
  double least() const { return at(0); }
  double most() const { return at(1); }
};

}  // namespace causeway::bench
