#include "model/cuda_graphs.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "base/log_text.h"
#include "kernels/cuda_status.cuh"

namespace causeway::model {
namespace {

using kernels::cuda_status;

// A stream that is left capturing would take every later step into a graph that is never launched.
Status check_not_capturing(kernels::CudaStream stream) {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  CAUSEWAY_TRY(cuda_status(cudaStreamIsCapturing(stream, &state), "asking whether it captures"));
  if (state == cudaStreamCaptureStatusNone) return {};
  return Error{ErrorCode::kDevice, "a stream is still captured after a failure: restart"};
}

}  // namespace

void CudaGraphs::give_up(const Error& why) {
  if (!std::exchange(given_up_, true)) {
    log_warning("steps run without further CUDA graphs, which is slower: " + why.message);
  }
}

std::int64_t CudaGraphs::captured() const {
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const auto& entry) { return static_cast<bool>(entry.second); });
}

Status CudaGraphs::run(std::int64_t key, const std::function<Status()>& enqueue,
                       kernels::CudaStream stream) {
  const auto [entry, inserted] = entries_.try_emplace(key);
  if (inserted || (given_up_ && !entry->second)) return enqueue();
  if (!entry->second) {
    auto captured = kernels::capture_graph("a step", enqueue, stream);
    if (!captured.ok()) {
      CAUSEWAY_TRY(check_not_capturing(stream));
      give_up(captured.error());
      return enqueue();
    }
    entry->second = device::CudaOwned<kernels::CudaGraph>(slice_, std::move(captured).value());
  }
  Status launched =
      cuda_status(cudaGraphLaunch(entry->second->get(), stream), "launching a step's graph");
  if (launched.ok() || launched.error().code != ErrorCode::kResourceExhausted) return launched;
  give_up(launched.error());
  return enqueue();  // the first launch wants memory too; nothing of it runs
}

}  // namespace causeway::model
