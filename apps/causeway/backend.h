// A backend, assembled: what the fleet asks for (SliceBackend), and what the engine runs on.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "device/host_memory.h"
#include "engine/step_executor.h"
#include "fleet/slice_backend.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "weights/model_pool.h"

namespace causeway::app {

class Backend : public fleet::SliceBackend {
 public:
  virtual engine::StepExecutor& executor() = 0;
  virtual std::int64_t frames() const = 0;
  // Tokens of this model that all frames together hold: no request can have more.
  virtual Result<Tokens> kv_capacity(const fleet::ModelSource& source) const = 0;
};

struct PoolOptions {
  Bytes bytes;           // budget of host memory for weights
  int load_threads = 0;  // 0: the pool's choice
};

// A backend whose models have their home in a pool of this process: loads them there, with the
// progress in the log, and leaves the rest to the derived one.
class PooledBackend : public Backend {
 public:
  // `clock` outlives the backend.
  PooledBackend(const PoolOptions& options, const Clock& clock);

  Result<fleet::AttachedModel> attach(const fleet::CatalogueEntry& entry,
                                      const fleet::ModelSource& source,
                                      const std::function<bool()>& cancelled) override;
  void detach(ModelId model) override;
  Result<Tokens> kv_capacity(const fleet::ModelSource& source) const override;

 protected:
  // The type that the pool keeps a model's weights in.
  virtual DType storage_of(const model::ModelConfig& config) const = 0;
  virtual Bytes kv_frame() const = 0;
  // How a model's KV lies in a frame.
  Result<kv::BlockLayout> layout_of(const model::ModelConfig& config) const;
  // Makes the executor able to run a model that the pool has; returns the tokens of its block.
  virtual Result<Tokens> add(ModelId model, const model::ModelConfig& config) = 0;
  virtual Status remove(ModelId model) = 0;

  const Clock& clock() const { return clock_; }
  device::HostMemory& memory() { return memory_; }
  weights::ModelPool& pool() { return pool_; }

 private:
  const PoolOptions options_;
  const Clock& clock_;
  device::HostMemory memory_;
  weights::ModelPool pool_;
};

}  // namespace causeway::app
