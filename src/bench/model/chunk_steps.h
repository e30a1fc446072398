// How long steps with prompts take, by chunk: alone, and beside sequences that decode. A model with
// random weights is built in memory, and the whole forward pass runs, as forward_bench.h and
// cuda_bench.h run it.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/model/bench_batch.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "kernels/cuda_stream.h"
#include "model/config.h"

namespace causeway::model {

struct ChunkBenchOptions {
  ModelConfig config;
  std::vector<Tokens> chunks;  // of prompts; each ≥ 1, ascending
  std::int64_t decodes = 32;   // sequences that decode beside them, ≥ 1
  std::int64_t decode_context = 1024;
  std::int64_t runs = 5;  // of each figure, whose median counts; ≥ 1
};

struct ChunkSteps {
  Tokens tokens{0};
  Nanos alone;
  Nanos beside;
};

// Called before each chunk is measured.
using ChunkBenchProgress = std::function<void(Tokens chunk)>;

// What a step with a chunk consists of: one prompt, or as many as the chunk exceeds the model's
// context; and, where it is `beside` others, the sequences that decode in front.
std::vector<BatchPart> parts_of(const ChunkBenchOptions& options, Tokens chunk, bool beside);

// What any of the steps takes at the most.
struct ChunkBenchLimits {
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t frames = 0;
};
ChunkBenchLimits limits_of(const ChunkBenchOptions& options, const kv::BlockLayout& layout);

// The time of each chunk by `time_step`, which runs a step. Each step runs once before it counts;
// alone and beside by turns.
using TimeStep = std::function<Result<Nanos>(const request::Batch& batch)>;
Result<std::vector<ChunkSteps>> measure_chunks(const ChunkBenchOptions& options,
                                               const kv::BlockLayout& layout,
                                               const TimeStep& time_step,
                                               const ChunkBenchProgress& progress);

// On the calling thread's CPU threads. kResourceExhausted when the machine has no room.
Result<std::vector<ChunkSteps>> bench_host_chunks(const ChunkBenchOptions& options,
                                                  device::HostMemory& memory, const Clock& clock,
                                                  const ChunkBenchProgress& progress);

// On a GPU: the slice's context is current, `stream` one of its streams. kResourceExhausted when
// the arena has no room. In builds with CUDA only.
Result<std::vector<ChunkSteps>> bench_cuda_chunks(const ChunkBenchOptions& options,
                                                  device::Device& device,
                                                  kernels::CudaStream stream,
                                                  const ChunkBenchProgress& progress);

}  // namespace causeway::model
