#include <string>

#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace causeway::kernels::embedding {
namespace {

constexpr int kThreads = 256;

// Grid: (⌈vectors / kThreads⌉, count).
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const uint4* table, int64_t rows, const int32_t* index, uint4* out, int vectors,
                  float scale) {
  // A step's second kernel: all behind may read the RoPE table early.
  wait_then_let_successor_start();
  const int at = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (at >= vectors) return;
  const int64_t row = index[blockIdx.y];
  const bool inside = row >= 0 && row < rows;
  uint4 words = inside ? table[row * vectors + at] : make_uint4(0, 0, 0, 0);
  if (scale != 1.0f) {
    float eight[8];
    widen(Bf16x8{words}, eight);
#pragma unroll
    for (float& x : eight) x *= scale;
    words = narrow(eight).words;
  }
  out[static_cast<int64_t>(blockIdx.y) * vectors + at] = words;
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (p.size < 8 || p.size % 8 != 0 || p.count > 65535) {
    return invalid_argument("embedding: " + std::to_string(p.count) + " rows of " +
                            std::to_string(p.size) +
                            "; rows are multiples of 8, and at most 65535 of them");
  }
  const int vectors = static_cast<int>(p.size / 8);
  const dim3 grid(static_cast<unsigned>((vectors + kThreads - 1) / kThreads),
                  static_cast<unsigned>(p.count));
  return launch("embedding", stream, {grid, dim3(kThreads)}, gather_kernel,
                static_cast<const uint4*>(p.table), p.table_rows, p.index,
                static_cast<uint4*>(p.out), vectors, p.scale);
}

}  // namespace causeway::kernels::embedding
