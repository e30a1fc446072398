// What a model costs that is larger than its share of HBM: decode and prefill of a streamed model
// of random weights, alone and beside a resident neighbour, in this process. Its limit is the bytes
// that a step streams over what the copy engine gives, both of the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/neighbour.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

struct StreamSettings {
  NamedConfig model;                     // only its shape counts
  std::optional<NamedConfig> neighbour;  // resident; none: without
  SliceSettings slice;
  double resident = 0.5;  // part of the model's bytes that HBM has for it, ring included
  std::int64_t rounds = 5;
  std::vector<std::int64_t> batches = {1, 16};
  std::int64_t context = 128;   // tokens of each sequence's prompt
  std::int64_t output = 6;      // tokens that it decodes
  std::int64_t prefill = 2048;  // tokens of the one prompt whose first token is measured
  NeighbourSettings beside = {.batch = 8, .context = 512, .output = 30'000};
  std::function<void(const std::string& what)> progress;
};

struct StreamReport {
  std::vector<Figure> rows;
};

// kUnavailable without a GPU; kResourceExhausted when the models do not fit into host memory, or
// the model into HBM as a whole, in the slice's words.
Result<StreamReport> bench_stream(const StreamSettings& settings, const Clock& clock);

nlohmann::ordered_json report_json(const StreamReport& report);

}  // namespace causeway::bench
