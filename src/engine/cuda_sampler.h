// The sampling part of a step on a GPU: what each row asks for goes up, what was chosen comes down.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "request/batch.h"

namespace causeway::engine {

// One step at a time. Buffers grow with the largest step so far; they are small beside a frame but
// for histories, which only requests with penalties bring.
class CudaSampler {
 public:
  CudaSampler();
  ~CudaSampler();
  CudaSampler(const CudaSampler&) = delete;
  CudaSampler& operator=(const CudaSampler&) = delete;

  // Reads what the entries that sample ask for. No step may be in flight. kResourceExhausted.
  Status prepare(const request::Batch& batch);
  // Enqueues the choice of their tokens from `logits` (f32 [rows][vocab], in the batch's order, in
  // device memory) and the way back to the host.
  Status enqueue(const float* logits, std::int64_t vocab, kernels::CudaStream stream);
  // What was chosen; after all that was enqueued is done.
  std::vector<request::SampledToken> collect() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
