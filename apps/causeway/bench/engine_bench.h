// The engine of a slice in this process, as `serve` runs it, on random weights: a trace all at
// once, and steady decode. One model, whose weights are all cached before anything counts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/engine_report.h"
#include "bench/slice_parts.h"
#include "client/load_generator.h"
#include "model/config.h"

namespace causeway::bench {

struct EngineBenchSettings {
  model::ModelConfig config;
  SliceSettings slice;
  std::vector<LoadRequest> requests;  // arrivals and models do not count; empty: no trace
  std::int64_t runs = 3;              // of the trace, after one that warms up
  std::vector<std::int64_t> decode_batches;
  std::int64_t decode_context = 1024;
  std::int64_t decode_tokens = 120;  // of each sequence
  std::function<void(const std::string& what)> progress;
};

// kInvalidArgument: nothing to measure; kUnavailable, with the reason, without a GPU; kUnsupported
// in a build without CUDA; kResourceExhausted when weights and the KV of all requests do not fit.
Result<EngineReport> bench_engine(const EngineBenchSettings& settings, const Clock& clock);

}  // namespace causeway::bench
