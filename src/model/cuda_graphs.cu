#include "model/cuda_graphs.h"

#include <cuda_runtime.h>

#include <utility>

#include "kernels/cuda_status.cuh"

namespace causeway::model {
namespace {

using kernels::cuda_status;

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

void CudaGraphs::Destroy::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

Result<CudaGraphs::Graph> CudaGraphs::capture(const std::function<Status()>& enqueue,
                                              kernels::CudaStream stream) {
  CAUSEWAY_TRY(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "beginning to capture a step"));
  const Status enqueued = enqueue();
  cudaGraph_t graph = nullptr;
  const Status captured = cuda_status(cudaStreamEndCapture(stream, &graph), "capturing a step");
  const std::unique_ptr<CUgraph_st, DestroyGraph> owned(graph);
  CAUSEWAY_TRY(enqueued);
  CAUSEWAY_TRY(captured);
  cudaGraphExec_t executable = nullptr;
  CAUSEWAY_TRY(
      cuda_status(cudaGraphInstantiate(&executable, graph, 0), "instantiating a step's graph"));
  return Graph(executable);
}

Status CudaGraphs::run(std::int64_t key, const std::function<Status()>& enqueue,
                       kernels::CudaStream stream) {
  const auto [entry, fresh] = entries_.try_emplace(key);
  if (fresh) return enqueue();
  if (!entry->second) {
    auto captured = capture(enqueue, stream);
    // Without memory for a graph the step runs all the same.
    if (!captured.ok() && captured.error().code == ErrorCode::kResourceExhausted) return enqueue();
    if (!captured.ok()) return captured.error();
    entry->second = std::move(captured).value();
  }
  return cuda_status(cudaGraphLaunch(entry->second.get(), stream), "launching a step's graph");
}

}  // namespace causeway::model
