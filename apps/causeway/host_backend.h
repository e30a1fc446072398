// The CPU backend, assembled: host memory, model pool, KV frames, executor. What the fleet asks for
// (SliceBackend) in terms of these rooms.
#pragma once

#include <memory>
#include <optional>

#include "backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "device/device.h"
#include "device/host/host_machine.h"
#include "device/host_memory.h"
#include "engine/host_executor.h"
#include "kv/frame_arena.h"
#include "weights/model_pool.h"

namespace causeway::app {

struct HostBackendOptions {
  Bytes pool;      // budget of host memory for weights
  Bytes kv;        // memory for KV frames
  Bytes kv_frame;  // of one frame
  int load_threads = 0;
};

class HostBackend final : public PooledBackend {
 public:
  // Takes the KV memory from the device's arena. `clock` outlives the backend.
  static Result<std::unique_ptr<HostBackend>> create(const HostBackendOptions& options,
                                                     const Clock& clock);
  HostBackend(const HostBackendOptions& options, const Clock& clock);  // by create()

  engine::StepExecutor& executor() override { return *executor_; }
  std::int64_t frames() const override { return frames_->frames(); }

 private:
  Status start();
  DType storage_of(const model::ModelConfig& config) const override;
  Bytes kv_frame() const override { return options_.kv_frame; }
  Result<Tokens> add(ModelId model, const model::ModelConfig& config) override;
  Status remove(ModelId model) override;

  const HostBackendOptions options_;
  std::unique_ptr<device::HostMachine> machine_;
  std::unique_ptr<device::Device> device_;
  std::optional<kv::FrameArena> frames_;
  std::unique_ptr<engine::HostExecutor> executor_;  // last: its models hold pins of the pool
};

}  // namespace causeway::app
