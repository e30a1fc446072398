// A model of random weights, and KV of random contents, on which steps run on the CPU.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/host_memory.h"
#include "model/forward.h"
#include "weights/weight_layout.h"

namespace causeway::model {

class HostSteps {
 public:
  struct Limits {
    std::int64_t sequences = 1;  // in a step
    std::int64_t frames = 1;     // of KV, bench_layout()
  };

  // The memory outlives the steps. kResourceExhausted when the machine has no room for the model.
  static Result<std::unique_ptr<HostSteps>> create(const ModelConfig& config, const Limits& limits,
                                                   device::HostMemory& memory);
  HostSteps(const ModelConfig& config, const Limits& limits, device::HostMemory& memory)
      : config_(config), limits_(limits), memory_(memory) {}  // for create()
  ~HostSteps();
  HostSteps(const HostSteps&) = delete;
  HostSteps& operator=(const HostSteps&) = delete;

  // Within the limits. Throws std::bad_alloc where activations find no room.
  Status run(const request::Batch& batch);

  const kv::BlockLayout& layout() const { return kv_.layout; }
  std::span<std::byte> weights() const { return weights_; }

 private:
  Status prepare();

  const ModelConfig config_;
  const Limits limits_;
  device::HostMemory& memory_;
  RegionId region_;
  weights::WeightLayout placed_;
  std::span<std::byte> weights_;
  KvMemory kv_;
  std::unique_ptr<HostForward> forward_;
  std::vector<float> logits_;
};

}  // namespace causeway::model
