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

// The tokens that are chosen from a step's rows of logits, or will be, in device memory [rows].
struct CudaChosen {
  const TokenId* tokens = nullptr;
  std::int64_t rows = 0;
};

// One step at a time; with two in flight, a sampler each. Buffers grow with the largest step so
// far; they are small beside a frame but for histories, which only requests with penalties bring.
class CudaSampler {
 public:
  // The workspace outlives it.
  explicit CudaSampler(model::CudaWorkspace& workspace);
  ~CudaSampler();
  CudaSampler(const CudaSampler&) = delete;
  CudaSampler& operator=(const CudaSampler&) = delete;

  // Room for so many rows with log-probabilities, and for some history. kResourceExhausted.
  Status reserve(std::int64_t rows);
  // Reads what the rows of logits are for. Its last step must have ended. kResourceExhausted.
  Status prepare(const request::Batch& batch);
  // Enqueues the way of what prepare() read to the device.
  Status upload(kernels::CudaStream stream);
  // Enqueues the choice of tokens, behind upload(), and the way back to the host. `before`: of the
  // step submitted before, whose tokens may be pending here.
  Status enqueue(const CudaLogits& logits, const CudaChosen& before, kernels::CudaStream stream);
  // Where the tokens that the last prepare() is for will be.
  CudaChosen chosen() const;
  // The chosen tokens, once all that was enqueued is done.
  std::vector<request::SampledToken> collect() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
