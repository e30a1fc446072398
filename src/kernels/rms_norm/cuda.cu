#include <string>

#include "kernels/cuda_launch.cuh"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace causeway::kernels::rms_norm {
namespace {

constexpr int kThreadsMax = 1024;

struct Args {
  Bf16x8* residual;       // [tokens][vectors]
  const Bf16x8* delta;    // [tokens][vectors] or null
  const Bf16x8* weight;   // [vectors]
  Bf16x8* out;            // [rows][vectors]
  const int32_t* wanted;  // [rows] or null
  float epsilon;
  int vectors;  // of eight, in a row
};

// Grid: rows. A row stays in registers between its two passes.
template <int kVectors>
__global__ void __launch_bounds__(kThreadsMax) norm_kernel(const Args a) {
  __shared__ float sums[32];
  wait_for_predecessor();
  const int64_t token = a.wanted != nullptr ? a.wanted[blockIdx.x] : static_cast<int>(blockIdx.x);
  if (token < 0) return;
  Bf16x8* row = a.residual + token * a.vectors;

  // ---- residual, and its squares
  // -----------------------------------------------------------------
  float x[kVectors][8], squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= a.vectors) continue;
    widen(row[at], x[i]);
    if (a.delta != nullptr) {
      float added[8];
      widen(a.delta[token * a.vectors + at], added);
#pragma unroll
      for (int j = 0; j < 8; ++j) x[i][j] += added[j];
      const Bf16x8 rounded = narrow(x[i]);
      if (a.wanted == nullptr) row[at] = rounded;
      widen(rounded, x[i]);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += x[i][j] * x[i][j];
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const float total = warp_sum(lane < warps ? sums[lane] : 0.0f);
  const float factor = rsqrtf(total / static_cast<float>(a.vectors * 8) + a.epsilon);

  // ---- out
  // ---------------------------------------------------------------------------------------
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= a.vectors) continue;
    float weight[8];
    widen(a.weight[at], weight);
#pragma unroll
    for (int j = 0; j < 8; ++j) x[i][j] *= factor * weight[j];
    a.out[static_cast<int64_t>(blockIdx.x) * a.vectors + at] = narrow(x[i]);
  }
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (p.size < 8 || p.size % 8 != 0 || p.size > 32768) {
    return invalid_argument("rms_norm: a row of " + std::to_string(p.size) +
                            " is not a multiple of 8 up to 32768");
  }
  Args a = {};
  a.residual = static_cast<Bf16x8*>(p.residual);
  a.delta = static_cast<const Bf16x8*>(p.delta);
  a.weight = static_cast<const Bf16x8*>(p.weight);
  a.out = static_cast<Bf16x8*>(p.out);
  a.wanted = p.rows_wanted;
  a.epsilon = p.epsilon;
  a.vectors = static_cast<int>(p.size / 8);
  const int of_thread = (a.vectors + kThreadsMax - 1) / kThreadsMax;
  const int threads = ((a.vectors + of_thread - 1) / of_thread + 31) / 32 * 32;
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.rows)), dim3(threads)};
  auto* kernel = of_thread == 1 ? norm_kernel<1> : of_thread == 2 ? norm_kernel<2> : norm_kernel<4>;
  return launch("rms_norm", stream, shape, kernel, a);
}

}  // namespace causeway::kernels::rms_norm
