// What a load run measured, per model and in all: as a table, and as JSON.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "client/load_generator.h"

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

// What a report needs of one request. Its strings are borrowed.
struct RequestSummary {
  Nanos scheduled;
  Nanos ended;
  Nanos first_token;  // with the last, where one came
  Nanos last_token;
  bool answered = false;  // a token came
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::string_view error;  // empty: complete
  std::string_view failure;

  bool ok() const { return error.empty(); }
};

RequestSummary summary_of(const LoadRecord& record);

// Adds requests up to a report, in their order, and keeps none of them.
class LoadSums {
 public:
  // Of a model: durations in ns.
  struct Group {
    ModelReport report;
    Histogram ttft, tpot, e2e;
    Histogram itl;  // the caller's: between the events of requests that were served
    std::int64_t ttft_met = 0, tpot_met = 0, both_met = 0;
  };

  explicit LoadSums(const Targets& targets) : targets_(targets) {}

  // Stays where it is.
  Group& group(const std::string& model) { return groups_[model]; }
  void add(const RequestSummary& request, Group& group);
  LoadReport take();

 private:
  const Targets targets_;
  std::map<std::string, Group> groups_;
  Nanos first_, last_;
  bool any_ = false;
  std::string first_error_;
};

LoadReport make_report(const std::vector<LoadRecord>& records, const Targets& targets);
std::string to_table(const LoadReport& report);
nlohmann::ordered_json to_json(const LoadReport& report);

}  // namespace causeway::bench
