#include <string>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::activation {
namespace {

constexpr int kThreads = 256;

// Grid: ⌈rows × vectors / kThreads⌉.
__global__ void __launch_bounds__(kThreads)
    silu_mul_kernel(const Bf16x8* gate_up, Bf16x8* out, int64_t count, int vectors) {
  wait_for_predecessor();
  const int64_t index = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (index >= count) return;
  const int64_t row = index / vectors;
  const Bf16x8* source = gate_up + row * 2 * vectors + (index - row * vectors);
  float gate[8], up[8];
  widen(source[0], gate);
  widen(source[vectors], up);
#pragma unroll
  for (int i = 0; i < 8; ++i) gate[i] = gate[i] / (1.0f + __expf(-gate[i])) * up[i];
  out[index] = narrow(gate);
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (p.size < 8 || p.size % 8 != 0) {
    return invalid_argument("activation: a row of " + std::to_string(p.size) +
                            " is not a multiple of 8");
  }
  const int64_t count = p.rows * (p.size / 8);
  const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads));
  return launch("silu_mul", stream, {grid, dim3(kThreads)}, silu_mul_kernel,
                static_cast<const Bf16x8*>(p.gate_up), static_cast<Bf16x8*>(p.out), count,
                static_cast<int>(p.size / 8));
}

}  // namespace causeway::kernels::activation
