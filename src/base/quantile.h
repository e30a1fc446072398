// Order statistics of a few measured values, such as the runs of a benchmark. base/histogram.h is
// for many values in little memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace causeway {

// The value that lies `share` of the way, 0 to 1, through the sorted values: 0 is the least, 0.5
// the median, 1 the most. It is one of them; between two, the one that is nearer, or else the
// larger. The values are not empty.
template <typename Value>
Value quantile(std::vector<Value> values, double share) {
  CAUSEWAY_CHECK(!values.empty(), "no value was measured");
  CAUSEWAY_CHECK(share >= 0 && share <= 1, "a share below 0 or above 1");
  const auto place =
      static_cast<std::ptrdiff_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

template <typename Value>
Value median(std::vector<Value> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace causeway
