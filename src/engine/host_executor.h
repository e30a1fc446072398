// StepExecutor on the CPU: model::HostForward for the logits, kernels::sampling for the tokens. Two
// lanes, of resident and of streamed models, have a worker thread and a step in flight each; one of
// them computes at a time, and a streamed step lets the other compute while it waits for weights.
// submit() only hands a step over.
//
//   frames.base │ frame 0 │ frame 1 │ … │ frame n-1 │     n × frames.bytes, one pool for all models
//
// With a mover KV rotates: a step's copies begin in submit(), on the caller's thread, and its
// worker waits for those in before it computes.
//
// The frame memory is the caller's (for instance a device::HostMemory region); each model brings
// the BlockLayout that says how its KV lies in a frame of that size.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "engine/step_executor.h"
#include "kv/block_layout.h"
#include "kv/kv_mover.h"
#include "model/forward.h"

namespace causeway::engine {

struct HostFrames {
  std::byte* base = nullptr;  // 64-byte aligned, count × bytes long; outlives the executor
  Bytes bytes;                // of one frame
  std::int64_t count = 0;
};

struct HostModel {
  std::unique_ptr<model::HostForward> forward;
  kv::BlockLayout layout;  // made for frames of HostFrames::bytes
  DType kv_dtype = DType::kBF16;
  bool streamed = false;  // its weights pass through a ring
};

class HostExecutor final : public StepExecutor {
 public:
  class State;
  // The mover of these frames outlives the executor; null: KV does not rotate. A step computes on
  // `threads` threads; 0: one for each CPU. kInvalidArgument: no memory, or misaligned;
  // kResourceExhausted: no threads are available.
  static Result<std::unique_ptr<HostExecutor>> start(const HostFrames& frames, const Clock& clock,
                                                     kv::KvMover* mover = nullptr, int threads = 0);
  explicit HostExecutor(std::unique_ptr<State> state);  // for start()
  // Waits for the step that runs, if any, but not for copies of KV.
  ~HostExecutor() override;
  HostExecutor(const HostExecutor&) = delete;
  HostExecutor& operator=(const HostExecutor&) = delete;

  // Any thread, also while a step runs. kInvalidArgument: known already, or a layout for another
  // frame size.
  Status add_model(ModelId model, HostModel host_model);
  // Drops the model: after Engine::remove_model. kNotFound;
  // kUnavailable while a step of it is in flight.
  Status remove_model(ModelId model);

  const Capabilities& capabilities() const override;
  // kUnavailable while a step of the model's lane is in flight; kNotFound for a model that was not
  // added.
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  std::optional<request::StepResult> wait(Nanos timeout) override;
  void begin_copies(std::span<const kv::KvCopy> copies) override;
  std::vector<kv::KvCopyEnd> poll_copies() override;
  kv::KvCopyRates copy_rates() const override;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
