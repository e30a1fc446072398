// The forward pass on a GPU: what forward.h does, with bf16 activations and weights resident in
// HBM, or on their way there: then the stream waits for each group before the first kernel that
// reads it.
//
// The residual stream and all that passes between kernels is bf16, sums within a kernel are f32,
// and logits are f32. Per layer, six kernels besides attention's own:
//
//   norm → q|k|v → head norms, RoPE, write KV → attention → o (+ residual) →
//   norm → gate|up, SiLU → down (+ residual)
//
// A step of single tokens in a bucket (step_tables.h) comes again and again, so it is captured in a
// CUDA graph when its shape is seen for the second time; the first runs plainly, which loads every
// kernel. The graph reads what changes between steps from the workspace's tables.
//
// What a step does is data (step_program.h), made anew when its shape or where its weights are
// differs from the last one's.
//
// Not thread-safe; only one of a workspace's models runs at a time, in one stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/cuda_step.h"
#include "model/cuda_workspace.h"
#include "model/forward.h"
#include "model/step_ranges.h"
#include "model/step_tables.h"
#include "weights/weight_layout.h"

namespace causeway::model {

struct CudaForwardOptions {
  bool graphs = true;
  // Device memory or null: every sparse layer of every step adds how many of its experts were
  // chosen.
  std::uint64_t* experts_read = nullptr;
};

// Where the weights lie, as the device sees them. The layouts need not outlive create().
struct CudaWeights {
  weights::PlacedWeights cached;     // bf16, in memory of the device
  weights::PlacedWeights home = {};  // the same in host memory; no base: never read there
  // For a model whose experts are cached one by one: `cached` lacks them, `home` has them.
  weights::ExpertSlots slots = {};
};

class CudaForward {
 public:
  class State;
  // The weights' memory and the workspace outlive the object; the slice's context is current, here
  // and in run().
  // kUnsupported for what the GPU's kernels do not serve: says what.
  static Result<std::unique_ptr<CudaForward>> create(ModelConfig config, const CudaWeights& weights,
                                                     CudaWorkspace& workspace,
                                                     const CudaForwardOptions& options);
  explicit CudaForward(std::unique_ptr<State> state);  // for create()
  ~CudaForward();
  CudaForward(const CudaForward&) = delete;
  CudaForward& operator=(const CudaForward&) = delete;

  const ModelConfig& config() const;

  // While weights are staged it waits for those of the layers in front, on the host.
  // Enqueues a step whose tables have been, or are being, copied to the workspace on `stream`. Row
  // i of the workspace's logits becomes the i-th of Batch::logit_rows(). Every frame's KV is
  // bf16. kInvalidArgument for a step beyond the workspace's limits; kDevice when the GPU refuses.
  Status run(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
             kernels::CudaStream stream);
  // The same of a streamed model, in ranges (step_ranges.h): begin(), then each range in its order
  // when its weights are there; behind a group that passes through a ring its counter is raised.
  // Other models' steps may be enqueued in between on the same stream, but on no workspace of this
  // one. What `weights` refers to stays until the step has ended.
  Status begin(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
               kernels::CudaStream stream);
  Status run_range(const StepRange& range);
  // With all weights cached.
  Status run(const StepShape& shape, const KvMemory& kv, kernels::CudaStream stream) {
    return run(shape, kv, {}, stream);
  }

  // Has the driver load the kernels of such a step with all weights cached, and runs none of them:
  // neither weights nor tables need be there. Kernel by kernel, until `stop` says that something
  // else is to be done: false; the next call for the shape goes on from there. No step is in
  // flight. kDevice: they cannot be loaded ahead (a driver older than CUDA 12.3), or a kernel was
  // refused.
  Result<bool> load_kernels(const StepShape& shape, const KvMemory& kv,
                            const std::function<bool()>& stop, kernels::CudaStream stream);

  // f32 [slots][vocab] in device memory: of the last step.
  const float* logits() const;
  // bf16 [rows of logits][hidden] in device memory: what the head has read (the final norm of the
  // last layer), until the next step of the workspace begins.
  const std::byte* hidden() const;

  // How many tokens chose each expert in the last step, which has ended, by layer that has experts
  // and by expert. Empty unless the model's experts are cached one by one.
  std::vector<std::uint32_t> take_experts_chosen();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::model
