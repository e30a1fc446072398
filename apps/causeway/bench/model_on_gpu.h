// The benchmark of a model's forward pass on a GPU of this machine.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/kernels/kernel_bench.h"
#include "model/config.h"

namespace causeway::app {

struct GpuBenchSettings {
  model::ModelConfig config;
  int gpu = 0;
  std::int64_t runs = 5;
  std::int64_t decode_context = 1024;
  std::vector<std::int64_t> decode_batches;
  std::int64_t prefill_tokens = 8192;
  bool graphs = true;
};

// kUnavailable, with the reason, without a GPU; kUnsupported in a build without CUDA.
Result<std::vector<kernels::bench::KernelBenchRow>> bench_model_on_gpu(
    const GpuBenchSettings& settings, const Clock& clock,
    const kernels::bench::BenchProgress& progress);

}  // namespace causeway::app
