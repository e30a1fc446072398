#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::activation {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kGridRowsMax = 32768;

// By a reciprocal: 0 where the divisor is beyond 2^126, and the quotient would be below 1e-36.
template <Gate kGate>
__device__ __forceinline__ float gated(float gate) {
  if (kGate == Gate::kSilu) return __fdividef(gate, 1.0f + __expf(-gate));
  const float twice = gate * fmaf(0.0713548163f * gate, gate, 1.5957691216f);
  return __fdividef(gate, 1.0f + __expf(-twice));
}

// Grid: (⌈vectors / kThreads⌉, rows at once).
template <Gate kGate>
__global__ void __launch_bounds__(kThreads)
    gated_kernel(const Bf16x8* gate_up, Bf16x8* out, int64_t rows, int vectors,
                 int64_t out_vectors) {
  wait_for_predecessor();
  const int column = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (column >= vectors) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Bf16x8* source = gate_up + row * 2 * vectors + column;
    const Bf16x8 both[2] = {source[0], source[vectors]};
    float gate[8], up[8];
    widen(both[0], gate);
    widen(both[1], up);
#pragma unroll
    for (int i = 0; i < 8; ++i) gate[i] = gated<kGate>(gate[i]) * up[i];
    out[row * out_vectors + column] = narrow(gate);
  }
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  const int64_t stride = p.out_stride == 0 ? p.size : p.out_stride;
  if (p.size < 8 || p.size % 8 != 0 || stride < p.size || stride % 8 != 0) {
    return invalid_argument("activation: a row of " + std::to_string(p.size) + ", " +
                            std::to_string(stride) +
                            " apart, is not a multiple of 8 or overlaps the next");
  }
  const dim3 grid(static_cast<unsigned>((p.size / 8 + kThreads - 1) / kThreads),
                  static_cast<unsigned>(std::min(p.rows, kGridRowsMax)));
  auto* kernel = p.gate == Gate::kSilu ? gated_kernel<Gate::kSilu> : gated_kernel<Gate::kGeluTanh>;
  return launch("gated activation", stream, {grid, dim3(kThreads)}, kernel,
                static_cast<const Bf16x8*>(p.gate_up), static_cast<Bf16x8*>(p.out), p.rows,
                static_cast<int>(p.size / 8), stride / 8);
}

}  // namespace causeway::kernels::activation
