#include <array>

#include "bench/kernels/cuda_timer.h"
#include "bench/model/chunk_steps.h"
#include "bench/model/cuda_steps.h"

namespace causeway::model {

Result<std::vector<ChunkSteps>> bench_cuda_chunks(const ChunkBenchOptions& options,
                                                  device::Device& device,
                                                  kernels::CudaStream stream,
                                                  const ChunkBenchProgress& progress) {
  CAUSEWAY_ASSIGN(const auto layout, bench_layout(options.config));
  const ChunkBenchLimits limits = limits_of(options, layout);
  CudaSteps steps(options.config, device, stream);
  CAUSEWAY_TRY(
      steps.prepare({.rows = limits.rows, .slots = limits.sequences, .frames = limits.frames}));
  const auto time_step = [&](const request::Batch& batch) {
    // Where all are single tokens, a graph of as many.
    const std::array bucket = {std::ssize(batch.entries)};
    const StepShape shape = shape_of(batch, bucket, options.config.plain_context());
    return kernels::bench::time_on_gpu([&] { return steps.enqueue(batch, shape); }, stream);
  };
  return measure_chunks(options, layout, time_step, progress);
}

}  // namespace causeway::model
