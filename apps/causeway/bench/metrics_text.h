// Prometheus' text format, as a server's /metrics has it, and what a run changed of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::bench {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Comments are passed over. kCorrupt names the line that is none of the format.
Result<std::vector<MetricSample>> parse_metrics(std::string_view text);

// What the series of a name add up to, by the values of some of their labels, those joined by
// spaces: by {"purpose", "direction"} "weights in". Nothing: there are no such series.
std::map<std::string, double> sums_of(const std::vector<MetricSample>& samples,
                                      std::string_view name,
                                      const std::vector<std::string>& labels = {});

}  // namespace causeway::bench
