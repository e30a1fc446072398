// The forward pass on a GPU: what forward.h does, with bf16 activations and weights resident in
// HBM.
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
// Not thread-safe; only one of a workspace's models runs at a time, in one stream.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "model/config.h"
#include "model/cuda_workspace.h"
#include "model/forward.h"
#include "model/step_tables.h"
#include "weights/model_pool.h"

namespace causeway::model {

struct CudaForwardOptions {
  bool graphs = true;
  // Device memory or null: every sparse layer of every step adds how many of its experts were
  // chosen.
  std::uint64_t* experts_read = nullptr;
};

class CudaForward {
 public:
  class State;
  // `resident`: bf16, in memory of the device. The workspace outlives the object; the
  // slice's context is current, here and in run().
  // kUnsupported for what the GPU's kernels do not serve: says what.
  static Result<std::unique_ptr<CudaForward>> create(ModelConfig config,
                                                     std::unique_ptr<weights::PinnedModel> resident,
                                                     CudaWorkspace& workspace,
                                                     const CudaForwardOptions& options);
  explicit CudaForward(std::unique_ptr<State> state);  // for create()
  ~CudaForward();
  CudaForward(const CudaForward&) = delete;
  CudaForward& operator=(const CudaForward&) = delete;

  const ModelConfig& config() const;

  // Enqueues a step whose tables have been, or are being, copied to the workspace on `stream`. Row
  // i of the workspace's logits becomes that of the i-th entry that samples. Every frame's KV is
  // bf16. kInvalidArgument for a step beyond the workspace's limits; kDevice when the GPU refuses.
  Status run(const StepShape& shape, const KvMemory& kv, kernels::CudaStream stream);

  // f32 [places][vocab] in device memory: of the last step.
  const float* logits() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::model
