// The sparse layers of a model on a GPU: where each expert lies, in tables on the device, so that
// the kernels reach the ones that the router chose without asking the host.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "kernels/moe/moe_cuda.h"
#include "model/config.h"
#include "model/cuda_array.h"
#include "model/cuda_workspace.h"
#include "model/layers.h"

namespace causeway::model {

struct CudaExpertsStep {
  std::int64_t layer = 0;  // a sparse one
  std::int64_t tokens = 0;
  int sm_count = 0;               // of the stream's context
  const void* x = nullptr;        // bf16 [tokens][hidden]
  const float* scores = nullptr;  // f32 [tokens][experts], the router's
  void* residual = nullptr;       // bf16 [tokens][hidden], to which the experts' sum is added
  void* workspace = nullptr;      // workspace_bytes, prepared
  std::uint64_t* experts_read = nullptr;  // or null: the experts that were chosen are added
};

class CudaExperts {
 public:
  static Bytes workspace_bytes(const ModelConfig& config, std::int64_t tokens);

  // The weights outlive the object and stay where they are; the workspace outlives it too.
  static Result<CudaExperts> create(const ModelConfig& config, const ModelWeights& weights,
                                    CudaWorkspace& workspace);
  Status run(const CudaExpertsStep& step, kernels::CudaStream stream) const;

  // For few tokens one kernel does the norm in front and the router's product too: x and scores are
  // not used, the norm's input is the residual.
  bool front_fits(const CudaExpertsStep& step) const;
  Status run_with_front(const kernels::moe::FrontCuda& front, const CudaExpertsStep& step,
                        kernels::CudaStream stream) const;

 private:
  kernels::moe::ParamsCuda params(const CudaExpertsStep& step) const;

  ModelConfig config_;
  std::vector<std::int64_t> table_of_layer_;      // which table; -1: dense
  std::optional<CudaArray<const void*>> tables_;  // [sparse layers][gate, up, down][experts]
};

}  // namespace causeway::model
