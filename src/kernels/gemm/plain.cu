// The product for operands that neither TMA nor cuBLASLt can address: a warp for each column of
// out. Right, and slow.
#include "kernels/gemm/plain.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "device/cuda/cuda_first_launch.h"

namespace causeway::kernels::gemm {
namespace {

constexpr int kPlainThreads = 256;
constexpr int kPlainWarps = kPlainThreads / 32;

// The dot product of two rows of k elements; all lanes return it.
__device__ float row_dot(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t k) {
  float sum = 0;
  for (int64_t i = threadIdx.x % 32; i < k; i += 32) {
    sum += __bfloat162float(a[i]) * __bfloat162float(b[i]);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  return sum;
}

__device__ float bias_of(const CudaRequest& r, const CudaOperands& operands, int64_t index) {
  return r.bias ? __bfloat162float(static_cast<const __nv_bfloat16*>(operands.bias)[index]) : 0.0f;
}

__global__ void plain_kernel(const CudaRequest r, const CudaOperands operands) {
  const int64_t column = int64_t{blockIdx.x} * kPlainWarps + threadIdx.x / 32;
  if (column >= r.n) return;
  const auto* w = static_cast<const __nv_bfloat16*>(operands.w);
  for (int64_t m = blockIdx.y; m < r.m; m += gridDim.y) {
    const auto* x = static_cast<const __nv_bfloat16*>(operands.x) + m * operands.x_stride;
    float value = row_dot(x, w + column * operands.w_stride, r.k) + bias_of(r, operands, column);
    if (r.silu_mul) {
      const float up = row_dot(x, w + (r.n + column) * operands.w_stride, r.k) +
                       bias_of(r, operands, r.n + column);
      value = value / (1.0f + __expf(-value)) * up;
    }
    if (threadIdx.x % 32 != 0) continue;
    if (r.residual) {
      value += __bfloat162float(static_cast<const __nv_bfloat16*>(
          operands.residual)[m * operands.residual_stride + column]);
    }
    const int64_t place = m * operands.out_stride + column;
    if (r.out == CudaOut::kF32) {
      static_cast<float*>(operands.out)[place] = value;
    } else {
      static_cast<__nv_bfloat16*>(operands.out)[place] = __float2bfloat16_rn(value);
    }
  }
}

}  // namespace

Status run_plain(const CudaPlan& plan, const CudaOperands& operands, CudaStream stream) {
  const CudaRequest& r = plan.request;
  const dim3 grid(static_cast<unsigned>((r.n + kPlainWarps - 1) / kPlainWarps),
                  static_cast<unsigned>(std::min<std::int64_t>(r.m, 8192)));
  const device::CudaFirstLaunch loading(plain_kernel, stream);
  plain_kernel<<<grid, kPlainThreads, 0, stream>>>(r, operands);
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return {};
  return Error{ErrorCode::kDevice, std::string("GEMM: launch: ") + cudaGetErrorString(code)};
}

}  // namespace causeway::kernels::gemm
