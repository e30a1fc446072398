// The sampling part of a step on a GPU: the rows' settings go up, and the chosen tokens come down.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "model/cuda_workspace.h"
#include "request/batch.h"

namespace causeway::engine {

// The logits of a step in device memory, f32 [rows][vocab]: Batch::logit_rows(), in the batch's
// order.
struct CudaLogits {
  const float* data = nullptr;
  std::int64_t vocab = 0;
};

// The tokens that are, or will be, chosen from a step's rows of logits, in device memory [rows].
struct CudaChosen {
  const TokenId* tokens = nullptr;
  std::int64_t rows = 0;
};

// One step at a time; with two in flight there is a sampler for each. Buffers grow with the largest
// step so far. They are smaller than a frame, except for histories, which only requests with
// penalties have.
class CudaSampler {
 public:
  // The workspace outlives it.
  explicit CudaSampler(model::CudaWorkspace& workspace);
  ~CudaSampler();
  CudaSampler(const CudaSampler&) = delete;
  CudaSampler& operator=(const CudaSampler&) = delete;

  // Takes room for so many rows with log-probabilities, and for some history. kResourceExhausted.
  Status reserve(std::int64_t rows);
  // Reads the settings of the rows of logits. The sampler's last step must have ended.
  // kResourceExhausted.
  Status prepare(const request::Batch& batch);
  // Enqueues the copy of what prepare() read to the device.
  Status upload(kernels::CudaStream stream);
  // Enqueues the choice of tokens, after upload(), and their copy to the host. `before`: the tokens
  // of the step submitted before, which may be pending here.
  Status enqueue(const CudaLogits& logits, const CudaChosen& before, kernels::CudaStream stream);
  // Where the tokens of the last prepare() will be.
  CudaChosen chosen() const;
  // The chosen tokens, after all enqueued work is done.
  std::vector<request::SampledToken> collect() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
