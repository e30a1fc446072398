#include "model/cuda_graphs.h"

#include <cuda_runtime.h>

#include <string>
#include <utility>

namespace causeway::model {
namespace {

Error cuda_error(cudaError_t code, const char* what) {
  (void)cudaGetLastError();  // so that a later check does not report it again
  return {code == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kDevice,
          std::string(what) + ": " + cudaGetErrorString(code)};
}

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

void CudaGraphs::Destroy::operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }

Result<CudaGraphs::Graph> CudaGraphs::capture(const std::function<Status()>& enqueue,
                                              kernels::CudaStream stream) {
  cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (code != cudaSuccess) return cuda_error(code, "beginning to capture a step");
  const Status enqueued = enqueue();
  cudaGraph_t graph = nullptr;
  code = cudaStreamEndCapture(stream, &graph);
  const std::unique_ptr<CUgraph_st, DestroyGraph> owned(graph);
  if (!enqueued.ok()) return enqueued.error();
  if (code != cudaSuccess) return cuda_error(code, "capturing a step");
  cudaGraphExec_t executable = nullptr;
  code = cudaGraphInstantiate(&executable, graph, 0);
  if (code != cudaSuccess) return cuda_error(code, "instantiating a step's graph");
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
  const cudaError_t code = cudaGraphLaunch(entry->second.get(), stream);
  if (code != cudaSuccess) return cuda_error(code, "launching a step's graph");
  return {};
}

}  // namespace causeway::model
