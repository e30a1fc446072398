#include "bench/transfer/rows.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::transfer::bench {

Spread spread_of(std::vector<double> values) {
  CAUSEWAY_CHECK(!values.empty(), "no run was measured");
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

std::string size_text(Bytes bytes) {
  struct Unit {
    int shift;
    const char* name;
  };
  for (const Unit unit : {Unit{30, " GiB"}, Unit{20, " MiB"}, Unit{10, " KiB"}}) {
    const std::int64_t one = std::int64_t{1} << unit.shift;
    if (bytes.count < one) continue;
    const std::int64_t tenths = (bytes.count * 10 + one / 2) / one;
    std::string text = std::to_string(tenths / 10);
    if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
    return text + unit.name;
  }
  return std::to_string(bytes.count) + " B";
}

}  // namespace causeway::transfer::bench
