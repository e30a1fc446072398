#include <algorithm>

#include "kernels/cuda_launch.cuh"
#include "kernels/soft_cap/soft_cap_cuda.h"

namespace causeway::kernels::soft_cap {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kCtasMax = 132 * 8;

__global__ void __launch_bounds__(kThreads) soft_cap_kernel(const ParamsCuda p) {
  wait_for_predecessor();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < p.count; i += step) {
    p.x[i] = p.cap * tanhf(p.x[i] / p.cap);
  }
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (!(p.cap > 0) || p.count < 0) return invalid_argument("soft_cap: the cap must be above 0");
  if (p.count == 0) return {};
  const dim3 grid(
      static_cast<unsigned>(std::min(kCtasMax, (p.count + 4 * kThreads - 1) / (4 * kThreads))));
  return launch("soft cap", stream, {grid, dim3(kThreads)}, soft_cap_kernel, p);
}

}  // namespace causeway::kernels::soft_cap
