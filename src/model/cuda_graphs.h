// CUDA graphs of steps, by shape: captured when a shape is seen for the second time, then replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/result.h"
#include "kernels/cuda_stream.h"

struct CUgraphExec_st;

namespace causeway::model {

// Not thread-safe. What a graph reads must stay where it was until the graphs are dropped.
class CudaGraphs {
 public:
  // Runs `enqueue`, which only enqueues on `stream`, plainly or as a graph that an earlier call
  // with the same key captured.
  Status run(std::int64_t key, const std::function<Status()>& enqueue, kernels::CudaStream stream);
  // Forgets all: weights or KV have moved. No graph may be running.
  void drop() { entries_.clear(); }

 private:
  struct Destroy {
    void operator()(CUgraphExec_st* graph) const;
  };
  using Graph = std::unique_ptr<CUgraphExec_st, Destroy>;
  static Result<Graph> capture(const std::function<Status()>& enqueue, kernels::CudaStream stream);

  std::map<std::int64_t, Graph> entries_;  // null: seen once
};

}  // namespace causeway::model
