// The production engine over a GPU of this machine, in this process, on random weights: a trace all
// at once, and steady decode.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/engine_report.h"
#include "bench/load_generator.h"
#include "model/config.h"

namespace causeway::bench {

struct EngineBenchSettings {
  model::ModelConfig config;
  int gpu = 0;
  std::vector<LoadRequest> requests;  // arrivals and models do not count; empty: no trace
  std::int64_t runs = 3;              // of the trace, after one that warms up
  std::vector<std::int64_t> decode_batches;
  std::int64_t decode_context = 1024;
  std::int64_t decode_tokens = 120;  // of each sequence
  std::int64_t running_max = 256;
  std::int64_t tokens_per_step_max = 8192;
  int steps_in_flight = 2;
  bool graphs = true;
  std::function<void(const std::string& what)> progress;
};

// kUnavailable, with the reason, without a GPU; kUnsupported in a build without CUDA;
// kResourceExhausted when weights and the KV of all requests do not fit.
Result<EngineReport> bench_engine_on_gpu(const EngineBenchSettings& settings, const Clock& clock);

}  // namespace causeway::bench
