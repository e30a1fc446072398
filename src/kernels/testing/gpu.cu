#include "kernels/testing/gpu.cuh"

#include <cuda_bf16.h>

#include "kernels/testing/random.cuh"

namespace causeway::kernels::testing {
namespace {

__global__ void __launch_bounds__(512)
    read_all(const uint4* data, int64_t count, uint32_t* sink) {
  uint4 sum = {};
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * step < count; i += 8 * step) {
    uint4 x[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = __ldcs(data + i + j * step);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sum.x ^= x[j].x;
      sum.y ^= x[j].y;
      sum.z ^= x[j].z;
      sum.w ^= x[j].w;
    }
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678u) *sink = 1;
}

}  // namespace

void fill(Device<BFloat16>& memory, std::uint64_t seed) {
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  fill_random<<<1056, 256, 0, stream>>>(reinterpret_cast<__nv_bfloat16*>(memory.get()),
                                        static_cast<int64_t>(memory.size()), seed);
  must(cudaStreamSynchronize(stream), "fill");
  must(cudaStreamDestroy(stream), "stream");
}

double hbm_read_gb_per_s(cudaStream_t stream, const void* memory, std::int64_t bytes) {
  Device<uint32_t> sink(1);
  const std::int64_t unit = std::int64_t{132} * 4 * 512 * 8 * 16;
  bytes = bytes / unit * unit;
  const double us = graph_us(stream, [&](cudaStream_t s) {
    read_all<<<132 * 4, 512, 0, s>>>(static_cast<const uint4*>(memory), bytes / 16, sink.get());
  });
  return static_cast<double>(bytes) / us * 1e-3;
}

}  // namespace causeway::kernels::testing
