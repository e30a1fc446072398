#include "bench/gemm_at_home.h"

#include <algorithm>

#ifdef CAUSEWAY_CUDA_BUILT
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#endif

namespace causeway::app {

#ifdef CAUSEWAY_CUDA_BUILT

namespace {

Status bench_slice(const GemmAtHomeSettings& settings, double fraction,
                   device::CudaMachine& machine, const SliceRow& row) {
  CAUSEWAY_ASSIGN(
      const auto slice,
      machine.open({.name = "bench", .physical_device = settings.gpu, .fraction = fraction}));
  CAUSEWAY_ASSIGN(const auto stream, slice->make_stream("bench"));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice));
  const int processors = slice->capabilities().processors;
  const auto report = [&](const kernels::hybrid_gemm::HomeBenchRow& one) { row(processors, one); };
  const auto rows = kernels::hybrid_gemm::run_home_benchmarks(
      settings.bench, settings.gpu, processors, device::cuda_stream_of(*stream), report);
  return rows.ok() ? Status() : Status(rows.error());
}

}  // namespace

Status bench_gemm_at_home(const GemmAtHomeSettings& settings, const Clock& clock,
                          const SliceRow& row) {
  device::HostMemory memory;
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(const auto machine, device::CudaMachine::create(api, {}, clock, memory));
  CAUSEWAY_ASSIGN(const device::CudaGpu gpu, machine->describe(settings.gpu));
  for (const int processors : settings.processors) {
    const double fraction = std::min(1.0, static_cast<double>(processors) / gpu.sms);
    CAUSEWAY_TRY(bench_slice(settings, fraction, *machine, row));
  }
  return {};
}

#else

Status bench_gemm_at_home(const GemmAtHomeSettings&, const Clock&, const SliceRow&) {
  return unsupported("this build has no CUDA parts: build where nvcc is");
}

#endif

}  // namespace causeway::app
