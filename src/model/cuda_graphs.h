// CUDA graphs of steps, by shape: captured when a shape is seen for the second time, then replayed.
// A step runs all the same where a graph cannot be had: plainly.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "base/result.h"
#include "device/cuda/cuda_owned.h"
#include "kernels/cuda_graph.h"
#include "kernels/cuda_stream.h"

namespace causeway::model {

// Not thread-safe. What a graph reads must stay where it was until the graphs are dropped.
class CudaGraphs {
 public:
  // The slice outlives it; its context is current in run().
  explicit CudaGraphs(const device::Device& slice) : slice_(slice) {}

  // Runs `enqueue`, which only enqueues on `stream`, plainly or as a graph that an earlier call
  // with the same key captured. When capturing or instantiating fails (memory runs out, or a call
  // that cannot be captured) nothing is left half captured: the step runs plainly, the log says
  // why, and no further graph is tried. What `enqueue` returns, or kDevice.
  Status run(std::int64_t key, const std::function<Status()>& enqueue, kernels::CudaStream stream);
  // Forgets all: weights or KV have moved. No graph may be running.
  void drop() { entries_.clear(); }

  std::int64_t captured() const;
  bool given_up() const { return given_up_; }

 private:
  void give_up(const Error& why);

  const device::Device& slice_;
  // Without a graph: seen once.
  std::map<std::int64_t, device::CudaOwned<kernels::CudaGraph>> entries_;
  bool given_up_ = false;
};

}  // namespace causeway::model
