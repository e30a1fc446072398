#include "kernels/cuda_launch.cuh"
#include "kernels/rope/rope_cuda.h"

namespace causeway::kernels::rope {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    table_kernel(const double* frequencies, const int32_t* position, float* out, int64_t count,
                 int half) {
  // Behind a step's plan, if it has one: no kernel behind this one starts before the plan, and the
  // step in front, have ended. Attention reads the plan before it waits (attention_cuda.h).
  wait_then_let_successor_start();
  const int64_t index = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (index >= count) return;
  const int64_t token = index / half;
  const int i = static_cast<int>(index % half);
  if (position[token] < 0) return;
  double sine, cosine;
  sincos(static_cast<double>(position[token]) * frequencies[i], &sine, &cosine);
  out[token * 2 * half + i] = static_cast<float>(cosine);
  out[token * 2 * half + half + i] = static_cast<float>(sine);
}

}  // namespace

Status fill_table(const TableCuda& p, CudaStream stream) {
  const int64_t count = p.tokens * (p.size / 2);
  const dim3 grid(static_cast<unsigned>((count + kThreads - 1) / kThreads));
  return launch("rope table", stream, {grid, dim3(kThreads)}, table_kernel, p.frequencies,
                p.position, p.out, count, static_cast<int>(p.size / 2));
}

}  // namespace causeway::kernels::rope
