#include "bench/model/cuda_steps.h"

#include <cuda_runtime.h>

#include <span>

#include "bench/kernels/cuda_limits.h"
#include "bench/model/bench_batch.h"
#include "kernels/cuda_status.cuh"

namespace causeway::model {

using kernels::cuda_status;

void CudaSteps::FreeHost::operator()(std::int32_t* memory) const { cudaFreeHost(memory); }

Result<device::Extents> CudaSteps::take(Bytes bytes, device::Arena::End end) {
  return device_.arena().allocate(device_.arena().extents_for(bytes), end);
}

Status CudaSteps::prepare(const Limits& limits) {
  CAUSEWAY_ASSIGN(const auto placed, weights::lay_out(plan_weights(config_, DType::kBF16)));
  CAUSEWAY_ASSIGN(layout_, bench_layout(config_));
  CAUSEWAY_ASSIGN(weights_memory_, take(placed.bytes, device::Arena::End::kHigh));
  CAUSEWAY_ASSIGN(kv_memory_, take(layout_.frame * limits.frames, device::Arena::End::kLow));
  CAUSEWAY_TRY(kernels::bench::cuda_fill_random_bf16(weights_memory_.data(),
                                                     weights_memory_.bytes(), 3, 0.03f, stream_));
  CAUSEWAY_TRY(kernels::bench::cuda_fill_random_bf16(kv_memory_.data(), kv_memory_.bytes(), 5, 0.5f,
                                                     stream_));
  CAUSEWAY_ASSIGN(
      workspace_,
      CudaWorkspace::create(device_, config_,
                            {.rows = limits.rows, .slots = limits.slots, .frames = limits.frames},
                            device_.capabilities().processors, stream_));
  constexpr std::uint64_t kNone = 0;
  CAUSEWAY_ASSIGN(experts_read_, workspace_->constant(std::as_bytes(std::span(&kNone, 1))));
  auto* experts_read =
      config_.moe ? reinterpret_cast<std::uint64_t*>(experts_read_.data()) : nullptr;
  CAUSEWAY_ASSIGN(forward_, CudaForward::create(
                                config_, {.cached = {&placed, weights_memory_.data()}}, *workspace_,
                                {.graphs = limits.graphs, .experts_read = experts_read}));
  table_elements_ =
      static_cast<std::size_t>(table_elements_max(limits.rows, limits.slots, limits.frames));
  void* pinned = nullptr;
  CAUSEWAY_TRY(
      cuda_status(cudaMallocHost(&pinned, 4 * table_elements_), "pinned memory for tables"));
  tables_.reset(static_cast<std::int32_t*>(pinned));
  return {};
}

Status CudaSteps::enqueue(const request::Batch& batch, const StepShape& shape) {
  const std::int64_t used = write_tables(batch, shape, {tables_.get(), table_elements_});
  CAUSEWAY_TRY(cuda_status(
      cudaMemcpyAsync(workspace_->tables(), tables_.get(), static_cast<std::size_t>(4 * used),
                      cudaMemcpyHostToDevice, stream_),
      "copying a step's tables"));
  const KvMemory kv{.base = kv_memory_.data(), .layout = layout_, .dtype = DType::kBF16};
  return forward_->run(shape, kv, stream_);
}

Result<double> CudaSteps::take_experts_read() {
  std::uint64_t read = 0;
  CAUSEWAY_TRY(cuda_status(
      cudaMemcpyAsync(&read, experts_read_.data(), sizeof(read), cudaMemcpyDeviceToHost, stream_),
      "experts read"));
  CAUSEWAY_TRY(
      cuda_status(cudaMemsetAsync(experts_read_.data(), 0, sizeof(read), stream_), "experts read"));
  CAUSEWAY_TRY(cuda_status(cudaStreamSynchronize(stream_), "experts read"));
  return static_cast<double>(read);
}

}  // namespace causeway::model
