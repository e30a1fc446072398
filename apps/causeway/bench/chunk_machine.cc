#include "bench/chunk_machine.h"

#include <thread>
#include <utility>

#include "device/host/host_machine.h"
#include "kernels/parallel.h"
#include "slice/step_times.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#endif

namespace causeway::bench {
namespace {

using Measured = Result<std::vector<model::ChunkSteps>>;

class CpuForChunks final : public ChunkMachine {
 public:
  CpuForChunks(int threads, const Clock& clock) : clock_(clock) {
    facts_.gpus.push_back({.processors = threads, .unit = 1, .units = threads});
    facts_.threads = true;
  }

  std::string name() const override { return slice::host_machine_name(); }
  const slice::SliceFacts& facts() const override { return facts_; }
  bool on_gpu() const override { return false; }
  DType storage(const model::ModelConfig& config) const override {
    return model::host_dtype(config.dtype);
  }
  // On a thread of its own, which ends with its limit.
  Measured measure(const slice::SlicePart& part, const model::ChunkBenchOptions& options,
                   const model::ChunkBenchProgress& progress) override {
    Measured measured = unavailable("it was not measured");
    std::thread thread([&] {
      if (!part.whole) kernels::limit_threads(part.processors);
      measured = model::bench_host_chunks(options, memory_, clock_, progress);
    });
    thread.join();
    return measured;
  }

 private:
  const Clock& clock_;
  device::HostMemory memory_;
  slice::SliceFacts facts_;
};

#ifdef CAUSEWAY_CUDA_BUILT

class GpuForChunks final : public ChunkMachine {
 public:
  GpuForChunks(int gpu, const Clock& clock) : gpu_(gpu), clock_(clock) {}

  Status prepare() {
    CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
    CAUSEWAY_ASSIGN(machine_, device::CudaMachine::create(api, {}, clock_, memory_));
    if (gpu_ >= machine_->gpus()) {
      return invalid_argument("there is no GPU " + std::to_string(gpu_) + ": this process sees " +
                              std::to_string(machine_->gpus()) + " GPU(s), counted from 0");
    }
    CAUSEWAY_ASSIGN(described_, machine_->describe(gpu_));
    facts_.gpu = gpu_;
    for (int each = 0; each < machine_->gpus(); ++each) {
      CAUSEWAY_ASSIGN(const device::CudaGpu described, machine_->describe(each));
      CAUSEWAY_ASSIGN(auto facts, slice::slice_gpu(*machine_, each, described));
      facts_.gpus.push_back(std::move(facts));
    }
    return {};
  }

  std::string name() const override { return slice::gpu_machine_name(described_.name); }
  const slice::SliceFacts& facts() const override { return facts_; }
  bool on_gpu() const override { return true; }
  DType storage(const model::ModelConfig&) const override { return DType::kBF16; }
  // All of the GPU's memory, whatever the slice's part of its SMs.
  Measured measure(const slice::SlicePart& part, const model::ChunkBenchOptions& options,
                   const model::ChunkBenchProgress& progress) override {
    CAUSEWAY_ASSIGN(const auto device,
                    machine_->open({.name = "profile",
                                    .physical_device = gpu_,
                                    .processors = part.whole ? 0 : part.processors,
                                    .unit = part.unit,
                                    .arena_bytes = described_.memory}));
    CAUSEWAY_ASSIGN(const auto stream, device->make_stream("profile"));
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*device));
    return model::bench_cuda_chunks(options, *device, device::cuda_stream_of(*stream), progress);
  }

 private:
  const int gpu_;
  const Clock& clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::CudaMachine> machine_;
  device::CudaGpu described_;
  slice::SliceFacts facts_;
};

#endif

}  // namespace

Result<std::unique_ptr<ChunkMachine>> open_cpu_for_chunks(const Clock& clock) {
  device::HostMemory memory;
  CAUSEWAY_ASSIGN(const auto machine, device::HostMachine::create({}, clock, memory));
  return std::unique_ptr<ChunkMachine>(
      std::make_unique<CpuForChunks>(machine->processors(), clock));
}

#ifdef CAUSEWAY_CUDA_BUILT

Result<std::unique_ptr<ChunkMachine>> open_gpu_for_chunks(int gpu, const Clock& clock) {
  auto machine = std::make_unique<GpuForChunks>(gpu, clock);
  CAUSEWAY_TRY(machine->prepare());
  return std::unique_ptr<ChunkMachine>(std::move(machine));
}

#else

Result<std::unique_ptr<ChunkMachine>> open_gpu_for_chunks(int, const Clock&) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or use --device cpu");
}

#endif

}  // namespace causeway::bench
