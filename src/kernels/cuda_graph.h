// A CUDA graph made of what a function enqueues: launches captured, not run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernels/cuda_stream.h"

struct CUgraphExec_st;

namespace causeway::kernels {

struct DestroyCudaGraph {
  void operator()(CUgraphExec_st* graph) const;
};
// Launched by cudaGraphLaunch; its context is current when it is destroyed.
using CudaGraph = std::unique_ptr<CUgraphExec_st, DestroyCudaGraph>;

// `enqueue` only enqueues, on `stream`, in this thread. The stream captures nothing any more when
// this returns, unless ending the capture failed. What `enqueue` returns, or kDevice or
// kResourceExhausted naming `what`.
Result<CudaGraph> capture_graph(const std::string& what, const std::function<Status()>& enqueue,
                                CudaStream stream);

// Has the driver load the kernels that `enqueue` launches, without running one: what is captured is
// dropped. They touch no memory, so that what they would read need not be there. A driver older
// than CUDA 12.3 loads nothing while it captures: an error. Else as capture_graph().
Status load_kernels(const std::string& what, const std::function<Status()>& enqueue,
                    CudaStream stream);

}  // namespace causeway::kernels
