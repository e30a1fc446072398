// A model of random weights, and KV of random contents, on which steps run on a GPU: what the
// benchmarks of the forward pass there share. Built with CUDA only.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "kernels/cuda_stream.h"
#include "model/cuda_forward.h"
#include "model/step_tables.h"
#include "request/batch.h"

namespace causeway::model {

class CudaSteps {
 public:
  struct Limits {
    std::int64_t rows = 0;  // tokens of a step
    std::int64_t slots = 0;
    std::int64_t frames = 0;  // of KV, bench_layout()
    bool graphs = true;
  };

  // The slice's context is current, and stays so; `stream` is one of its streams.
  CudaSteps(const ModelConfig& config, device::Device& device, kernels::CudaStream stream)
      : config_(config), device_(device), stream_(stream) {}

  // kResourceExhausted when the arena has no room.
  Status prepare(const Limits& limits);

  // Enqueues a step within the limits, as an executor does it: tables written by the host, copied,
  // and the step behind them. A step with other tables may follow only when it has ended.
  Status enqueue(const request::Batch& batch, const StepShape& shape);

  // How many experts all sparse layers of the steps since the last call chose; the stream is idle.
  Result<double> take_experts_read();

  const ModelConfig& config() const { return config_; }
  const kv::BlockLayout& layout() const { return layout_; }
  const device::Extents& weights() const { return weights_memory_; }

 private:
  struct FreeHost {
    void operator()(std::int32_t* memory) const;
  };
  Result<device::Extents> take(Bytes bytes, device::Arena::End end);

  const ModelConfig config_;
  device::Device& device_;
  kernels::CudaStream stream_;
  kv::BlockLayout layout_;
  device::Extents weights_memory_;
  device::Extents kv_memory_;
  std::unique_ptr<CudaWorkspace> workspace_;
  device::Piece experts_read_;  // std::uint64_t
  std::unique_ptr<CudaForward> forward_;
  std::unique_ptr<std::int32_t, FreeHost> tables_;
  std::size_t table_elements_ = 0;
};

}  // namespace causeway::model
