// What the forward pass makes of a GPU: decode against the HBM's read bandwidth, prefill against
// cuBLASLt's bf16 peak, both measured in the same run. Weights and KV are random, made on the spot.
//
// Decode has two further limits of the same run. "chain_read": the step's bytes read by a chain of
// dependent kernels that do nothing else (model/decode_chain.h, bench/kernels/cuda_chain.h).
// "bulk_read": all weights read by one such kernel, because the limit, which is measured with
// ordinary loads, is not the most that the memory gives.
#pragma once

#include <vector>

#include "base/result.h"
#include "bench/kernels/kernel_bench.h"
#include "device/device.h"
#include "kernels/cuda_stream.h"
#include "model/config.h"

namespace causeway::model {

struct CudaBenchOptions {
  ModelConfig config;
  std::int64_t runs = 5;
  std::int64_t decode_context = 1024;
  std::vector<std::int64_t> decode_batches = {1, 8, 32, 128};
  std::int64_t decode_steps = 20;  // a run
  std::int64_t prefill_tokens = 8192;
  bool graphs = true;
};

// Rows "decode" (GB/s: weights and KV read a step ÷ the step's time) and "prefill" (GFLOP/s: of the
// products and of causal attention). The slice's context is current; `stream` is one of its
// streams. kResourceExhausted when the arena has no room.
Result<std::vector<kernels::bench::KernelBenchRow>> run_cuda_benchmarks(
    const CudaBenchOptions& options, device::Device& device, kernels::CudaStream stream,
    const kernels::bench::BenchProgress& progress);

}  // namespace causeway::model
