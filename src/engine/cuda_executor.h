// StepExecutor on a CUDA slice: model::CudaForward for the logits, sampling on the GPU for the
// tokens. submit() enqueues a whole step from the caller's thread and returns; only the chosen
// tokens come back.
//
//   uploads │ tables, sampling rows ─▶ HBM │
//   steps     … the step before │ its tokens, tables │ forward │ sampling │ tokens ─▶ host │ mark
//   wait()                                                                     polls the mark ┘
//
// With a mover KV rotates: a step's copies begin in submit(), and the stream of steps waits for the
// copies in before the step's first kernel (later kernels may read early). No kernel of a streamed
// model is enqueued before they have ended.
//
// Two steps of resident models may be in flight: tables and sampling rows are double, and the
// second's go up while the first runs. Where a token is pending, it is read from the first's on the
// device.
//
// A step that awaits masks is enqueued up to its logits. When the masks are there the sampler's
// rows go up and its kernels are enqueued, before any work of the next step. No kernel waits for
// the host.
//
// Beside them one step of a streamed model may be in flight, which has a workspace of its own. It
// is enqueued range by range (model/step_ranges.h) on the same stream, in submit() and wait(), as
// its weights arrive: no kernel waits for a copy, and other models' steps run in between.
//
// The frames lie in the slice's arena, one pool for all models; each model brings the BlockLayout
// that says how its KV lies in a frame of that size.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "engine/step_executor.h"
#include "kv/block_layout.h"
#include "kv/kv_mover.h"
#include "model/cuda_forward.h"

namespace causeway::engine {

struct CudaFrames {
  std::byte* base = nullptr;  // in the slice's arena; outlives the executor
  Bytes bytes;                // of one frame
  std::int64_t count = 0;
};

struct CudaModel {
  std::unique_ptr<model::CudaForward> forward;  // over the executor's workspace
  kv::BlockLayout layout;                       // made for frames of CudaFrames::bytes
  bool streamed = false;                        // its forward pass is over the other workspace
};

class CudaExecutor final : public StepExecutor {
 public:
  class State;
  // The slice, the workspaces, and the mover of these frames outlive the executor. `streamed`: the
  // workspace of streamed models; null: there are none. `mover`: null: KV does not rotate.
  // kInvalidArgument: no frames.
  static Result<std::unique_ptr<CudaExecutor>> start(device::Device& slice,
                                                     model::CudaWorkspace& workspace,
                                                     const CudaFrames& frames,
                                                     model::CudaWorkspace* streamed = nullptr,
                                                     kv::KvMover* mover = nullptr);
  explicit CudaExecutor(std::unique_ptr<State> state);  // for start()
  // Waits for a step that runs, as long as the slice's machine allows, but not for copies of KV.
  ~CudaExecutor() override;
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  // Any thread, also while a step runs. kInvalidArgument: already known, or a layout for another
  // frame size; kUnsupported: streamed, without a workspace for that.
  Status add_model(ModelId model, CudaModel cuda_model);
  // Drops the model and its weights: after Engine::remove_model. kNotFound; kUnavailable while a
  // step of it is in flight.
  Status remove_model(ModelId model);

  const Capabilities& capabilities() const override;
  // kUnavailable while two steps, or one of a streamed model, are in flight; kNotFound for a model
  // that was not added; kInvalidArgument for a step beyond the workspace's limits; kDevice.
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  Status supply_masks(StepId step, std::vector<request::LateMask> masks) override;
  std::optional<request::StepResult> wait(Nanos timeout) override;
  void begin_copies(std::span<const kv::KvCopy> copies) override;
  std::vector<kv::KvCopyEnd> poll_copies() override;
  // Loads the kernels of model::first_steps(), once for all models that need the same; nothing is
  // computed. When one cannot be loaded ahead the log tells why, and no more are loaded. Nothing is
  // done for streamed models: their steps wait longer for weights than for kernels.
  bool warm_up(ModelId model, const std::function<bool()>& stop) override;
  kv::KvCopyRates copy_rates() const override;
  Status health() const override;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
