// Launching kernels that chain by programmatic dependent launch: a kernel may start while its
// predecessor of the stream still runs, and waits on the device before it reads what that wrote.
//
// Every kernel of such a chain waits, in every block, before it writes, and before it reads what a
// kernel in front may still write: a kernel whose blocks do not wait would let its successor
// overtake its predecessor. What a kernel reads before its wait is no kernel's output (weights), or
// was complete before a `wait_then_let_successor_start()` in front, or its value is not used
// (attention's merging and the experts' front rehearse).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "device/cuda/cuda_first_launch.h"
#include "kernels/cuda_stream.h"
#include "kernels/ptx/launch.cuh"

namespace causeway::kernels {

__device__ __forceinline__ void let_successor_start() { ptx::dependents_launch(); }

// Lets the successor start, and returns once all that the predecessor wrote is visible.
__device__ __forceinline__ void wait_for_predecessor() {
  let_successor_start();
  ptx::dependency_wait();
}

// As wait_for_predecessor(), but no kernel behind this one starts before the predecessor has ended:
// kernels behind may then read before they wait what kernels in front of this one wrote.
__device__ __forceinline__ void wait_then_let_successor_start() {
  ptx::dependency_wait();
  let_successor_start();
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  int shared_bytes = 0;
  int shared_bytes_max = 0;  // the most that any launch of the kernel takes, where that varies
  int cluster = 1;           // CTAs of a cluster, along x
  // The kernel in front is a library's, which does not let its successor start. In a graph this one
  // is placed all the same once all CTAs of that one have been; it waits for its end as ever.
  bool behind_library = false;
};

// While `stream` is captured and its last node is a kernel: what is captured next depends on that
// kernel's CTAs having started (and waits for its end itself). Not with programmatic serialization,
// which would replace that dependency. False: nothing is changed.
inline bool depend_on_start(CudaStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  const auto fails = [](cudaError_t code) {
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code != cudaSuccess;
  };
  if (fails(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count)) ||
      status != cudaStreamCaptureStatusActive || count != 1) {
    return false;
  }
  cudaGraphNode_t last = nodes[0];
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  if (fails(cudaGraphNodeGetType(last, &type)) || type != cudaGraphNodeTypeKernel) return false;
  cudaGraphEdgeData edge = {};
  edge.from_port = cudaGraphKernelNodePortLaunchCompletion;
  edge.type = cudaGraphDependencyTypeProgrammatic;
  return !fails(cudaStreamUpdateCaptureDependencies(stream, &last, &edge, 1,
                                                    cudaStreamSetCaptureDependencies));
}

inline Status launch_status(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  (void)cudaGetLastError();  // so that a later check does not report it again
  return Error{ErrorCode::kDevice,
               std::string("launching ") + what + ": " + cudaGetErrorString(code)};
}

template <typename... Formal, typename... Actual>
Status launch(const char* what, CudaStream stream, const LaunchShape& shape,
              void (*kernel)(Formal...), Actual&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return {};
  const device::CudaFirstLaunch loading(kernel, stream);
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed =
      shape.behind_library && depend_on_start(stream) ? 0 : 1;
  // The matrix products' split of an SM's memory: to change it an SM must run empty, which would
  // end the overlap of neighbours.
  attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
  attributes[2].val.clusterDim.y = 1;
  attributes[2].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster > 1 ? 3 : 2;
  if (shape.shared_bytes > 48 << 10) {
    // Never lowered: another thread may be about to launch the kernel with more.
    const int most = shape.shared_bytes_max > shape.shared_bytes ? shape.shared_bytes_max
                                                                 : shape.shared_bytes;
    const cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    if (code != cudaSuccess) return launch_status(code, what);
  }
  return launch_status(cudaLaunchKernelEx(&config, kernel, static_cast<Formal>(arguments)...),
                       what);
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, lanes);
  return x;
}

}  // namespace causeway::kernels
