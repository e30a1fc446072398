// The sparse layers of a model on a GPU: where each expert lies, in tables on the device, so that
// the kernels reach the ones that the router chose without asking the host.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "model/config.h"
#include "model/cuda_array.h"
#include "model/cuda_workspace.h"
#include "model/layers.h"

namespace causeway::model {

struct CudaExpertsStep {
  std::int64_t layer = 0;  // a sparse one
  std::int64_t tokens = 0;
  const void* x = nullptr;        // bf16 [tokens][hidden]
  const float* scores = nullptr;  // f32 [tokens][experts], the router's
  void* out = nullptr;            // bf16 [tokens][hidden]
  void* workspace = nullptr;      // workspace_bytes
};

class CudaExperts {
 public:
  static Bytes workspace_bytes(const ModelConfig& config, std::int64_t tokens);

  // The weights outlive the object and stay where they are; the workspace outlives it too.
  static Result<CudaExperts> create(const ModelConfig& config, const ModelWeights& weights,
                                    CudaWorkspace& workspace);
  Status run(const CudaExpertsStep& step, kernels::CudaStream stream) const;

 private:
  ModelConfig config_;
  std::vector<std::int64_t> table_of_layer_;      // which table; -1: dense
  std::optional<CudaArray<const void*>> tables_;  // [sparse layers][gate, up, down][experts]
};

}  // namespace causeway::model
