#include <algorithm>

#include "kernels/cuda_launch.cuh"
#include "kernels/pending_tokens/pending_tokens.h"

namespace causeway::kernels::pending_tokens {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 1024;

__global__ void __launch_bounds__(kThreads)
    resolve_kernel(int32_t* tokens, int64_t count, const int32_t* chosen, int64_t rows) {
  wait_for_predecessor();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    const int32_t token = tokens[i];
    if (token >= -1) continue;
    const int64_t row = -2 - static_cast<int64_t>(token);
    tokens[i] = row < rows ? chosen[row] : 0;
  }
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  const int64_t blocks = std::min((p.count + kThreads - 1) / kThreads, kBlocksMax);
  return launch("pending_tokens", stream, {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)},
                resolve_kernel, p.tokens, p.count, p.chosen, p.rows);
}

}  // namespace causeway::kernels::pending_tokens
