#include "bench/model_on_gpu.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include "bench/model/cuda_bench.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#endif

namespace causeway::app {

#ifdef CAUSEWAY_CUDA_BUILT

Result<std::vector<kernels::bench::KernelBenchRow>> bench_model_on_gpu(
    const GpuBenchSettings& settings, const Clock& clock,
    const kernels::bench::BenchProgress& progress) {
  device::HostMemory memory;
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(const auto machine, device::CudaMachine::create(api, {}, clock, memory));
  CAUSEWAY_ASSIGN(const device::CudaGpu gpu, machine->describe(settings.gpu));
  CAUSEWAY_ASSIGN(
      const auto slice,
      machine->open({.name = "bench", .physical_device = settings.gpu, .arena_bytes = gpu.memory}));
  CAUSEWAY_ASSIGN(const auto stream, slice->make_stream("bench"));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice));
  return model::run_cuda_benchmarks({.config = settings.config,
                                     .runs = settings.runs,
                                     .decode_context = settings.decode_context,
                                     .decode_batches = settings.decode_batches,
                                     .prefill_tokens = settings.prefill_tokens,
                                     .graphs = settings.graphs},
                                    *slice, device::cuda_stream_of(*stream), progress);
}

#else

Result<std::vector<kernels::bench::KernelBenchRow>> bench_model_on_gpu(
    const GpuBenchSettings&, const Clock&, const kernels::bench::BenchProgress&) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or use --device cpu");
}

#endif

}  // namespace causeway::app
