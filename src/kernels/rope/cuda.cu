#include "kernels/cuda_launch.cuh"
#include "kernels/rope/rope_cuda.h"

namespace causeway::kernels::rope {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) table_kernel(const TableCuda p, int64_t count) {
  // Behind a step's plan, if it has one: no kernel behind this one starts before the plan, and the
  // step in front, have ended. Attention reads the plan before it waits (attention_cuda.h).
  wait_then_let_successor_start();
  const int64_t index = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (index >= count) return;
  const int half = static_cast<int>(p.size / 2);
  const int64_t token = index / half;
  const int i = static_cast<int>(index % half);
  if (p.position[token] < 0) return;
  double sine = 0, cosine = 1;
  if (i < p.pairs) {
    sincos(static_cast<double>(p.position[token]) * p.frequencies[i], &sine, &cosine);
    sine *= p.amplitude;
    cosine *= p.amplitude;
  }
  p.out[token * 2 * half + i] = static_cast<float>(cosine);
  p.out[token * 2 * half + half + i] = static_cast<float>(sine);
}

}  // namespace

Status fill_table(const TableCuda& p, CudaStream stream) {
  if (p.pairs < 0 || p.pairs > p.size / 2) {
    return invalid_argument("rope: more pairs are rotated than a head has");
  }
  const int64_t count = p.tokens * (p.size / 2);
  const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads));
  return launch("rope table", stream, {grid, dim3(kThreads)}, table_kernel, p, count);
}

}  // namespace causeway::kernels::rope
