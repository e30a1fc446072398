#include "kernels/cuda_graph.h"

#include <cuda_runtime.h>

#include <utility>

#include "kernels/cuda_status.cuh"

namespace causeway::kernels {
namespace {

struct DestroyCaptured {
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
};
using Captured = std::unique_ptr<CUgraph_st, DestroyCaptured>;

Result<Captured> capture(const std::string& what, const std::function<Status()>& enqueue,
                         CudaStream stream) {
  CAUSEWAY_TRY(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "beginning to capture " + what));
  const Status enqueued = enqueue();
  cudaGraph_t graph = nullptr;
  const Status captured = cuda_status(cudaStreamEndCapture(stream, &graph), "capturing " + what);
  Captured owned(graph);
  CAUSEWAY_TRY(enqueued);
  CAUSEWAY_TRY(captured);
  return {std::move(owned)};
}

}  // namespace

void DestroyCudaGraph::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

Result<CudaGraph> capture_graph(const std::string& what, const std::function<Status()>& enqueue,
                                CudaStream stream) {
  CAUSEWAY_ASSIGN(const Captured graph, capture(what, enqueue, stream));
  cudaGraphExec_t executable = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaGraphInstantiate(&executable, graph.get(), 0),
                           "instantiating the graph of " + what));
  return CudaGraph(executable);
}

Status load_kernels(const std::string& what, const std::function<Status()>& enqueue,
                    CudaStream stream) {
  const auto captured = capture(what, enqueue, stream);
  return captured.ok() ? Status() : Status(captured.error());
}

}  // namespace causeway::kernels
