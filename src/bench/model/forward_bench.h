// What the whole forward pass makes of the machine: decode against the memory's read bandwidth,
// prefill against the bf16 matrix peak. A model with random weights is built in memory.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/kernels/kernel_bench.h"
#include "device/host_memory.h"
#include "model/config.h"

namespace causeway::model {

// The shape of Llama-3.2-1B: 16 layers of 2048, 32/8 heads of 64, vocabulary 128,256, tied.
ModelConfig llama_1b_shape();

struct ForwardBenchOptions {
  ModelConfig config = llama_1b_shape();
  std::int64_t runs = 7;                           // ≥ 5
  std::vector<std::int64_t> decode_batches = {1};  // sequences in a step
  std::int64_t decode_context = 512;               // of each of them
  std::int64_t decode_steps = 3;                   // a run
  std::int64_t prefill_tokens = 512;
};

// Rows "decode", one for each batch (bytes of weights and KV read a step ÷ time; ratio wanted at
// batch 1: 0.7), and "prefill" (floating-point operations ÷ time; ratio wanted: 0.6).
// kResourceExhausted when the machine has no room for the model. Uses all threads.
Result<std::vector<kernels::bench::KernelBenchRow>> run_forward_benchmarks(
    const ForwardBenchOptions& options, device::HostMemory& memory, const Clock& clock,
    const kernels::bench::BenchProgress& progress);

}  // namespace causeway::model
