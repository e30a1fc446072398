// How a slice kept its latency targets under a rate of arrivals and a policy. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/samples.h"
#include "bench/token_times.h"
#include "request/batch.h"
#include "request/slo.h"

namespace causeway::bench {

// One request and when its tokens came.
struct SloRequest {
  Nanos due;  // when it arrived by the list, by the clock
  std::int64_t prompt = 0;
  TokenTimes times;  // ended or not
};

// Of the same requests, by the simulator; shares of all of them.
struct SloPrediction {
  double ttft_attained = 0;
  double tpot_attained = 0;
  double both_attained = 0;
  double tokens_per_second = 0;
};

// One policy at one rate.
struct SloRow {
  std::string policy;
  double rate = 0;  // requests a second
  std::int64_t requests = 0;
  std::int64_t failed = 0;  // ended with an error, or not at all
  std::string first_error;
  // That had their first token within the target; whose mean time between tokens was within it
  // (those with fewer than two tokens keep it); both. A failed request keeps neither.
  std::int64_t ttft_met = 0;
  std::int64_t tpot_met = 0;
  std::int64_t both_met = 0;
  Samples ttft, tpot, gap;  // ms; the last: every gap between two tokens
  std::int64_t output_tokens = 0;
  double seconds = 0;  // from the first arrival to the last token
  // What the slice did meanwhile.
  std::int64_t recomputed = 0;  // tokens of KV that were computed more than once
  std::int64_t preemptions = 0;
  std::int64_t rotations = 0;
  request::KvCopyCounts copies;
  double not_overlapped = 0;  // of its steps' time, when the device waited for the host
  std::optional<SloPrediction> predicted;

  double share(std::int64_t met) const {
    return requests > 0 ? static_cast<double>(met) / static_cast<double>(requests) : 0;
  }
  double tokens_per_second() const {
    return seconds > 0 ? static_cast<double>(output_tokens) / seconds : 0;
  }
};

// `before` and `after`: of the slice's engine.
SloRow report_slo(std::span<const SloRequest> requests, const request::Slo& slo,
                  const request::Observation& before, const request::Observation& after);

// Rows of the same rate stand together.
void print_slo(const std::vector<SloRow>& rows, const request::Slo& slo);
nlohmann::ordered_json slo_json(const std::vector<SloRow>& rows, const request::Slo& slo);

}  // namespace causeway::bench
