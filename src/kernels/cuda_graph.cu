#include "kernels/cuda_graph.h"

#include <cuda_runtime.h>

#include "kernels/cuda_status.cuh"

namespace causeway::kernels {
namespace {

struct DestroyCaptured {
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

void DestroyCudaGraph::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

Result<CudaGraph> capture_graph(const std::string& what, const std::function<Status()>& enqueue,
                                CudaStream stream) {
  CAUSEWAY_TRY(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "beginning to capture " + what));
  const Status enqueued = enqueue();
  cudaGraph_t graph = nullptr;
  const Status captured = cuda_status(cudaStreamEndCapture(stream, &graph), "capturing " + what);
  const std::unique_ptr<CUgraph_st, DestroyCaptured> owned(graph);
  CAUSEWAY_TRY(enqueued);
  CAUSEWAY_TRY(captured);
  cudaGraphExec_t executable = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaGraphInstantiate(&executable, graph, 0),
                           "instantiating the graph of " + what));
  return CudaGraph(executable);
}

}  // namespace causeway::kernels
