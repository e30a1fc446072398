// What a load run measured, per model and in all: as a table, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/load_generator.h"

namespace causeway::bench {

struct Targets {
  Nanos ttft = seconds(5);
  Nanos tpot = millis(100);
};

struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0, mean = 0;
};

struct ModelReport {
  std::string model;  // "all" for the sum
  std::int64_t requests = 0;
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;
  Percentiles ttft_ms;  // arrival to first token
  Percentiles tpot_ms;  // after the first token, a request's mean
  Percentiles itl_ms;   // between consecutive events
  Percentiles e2e_ms;
  double ttft_attained = 0;  // share of requests within the target; a failed one is not
  double tpot_attained = 0;
  double slo_attained = 0;  // both
  double output_tokens_per_second = 0;
  std::string first_error;
};

struct LoadReport {
  Nanos duration;
  Targets targets;
  std::vector<ModelReport> models;  // by name
  ModelReport all;
};

LoadReport make_report(const std::vector<LoadRecord>& records, const Targets& targets);
std::string to_table(const LoadReport& report);
nlohmann::ordered_json to_json(const LoadReport& report);

}  // namespace causeway::bench
