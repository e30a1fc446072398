#include "slice/testing/sum_words.cuh"

namespace causeway::slice::testing {
namespace {

// Parts of the sum of words: block b's is parts[b].
__global__ void sum_kernel(const unsigned long long* words, std::int64_t count,
                           unsigned long long* parts) {
  __shared__ unsigned long long of_warps[32];
  unsigned long long sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    sum += words[i] * (2 * static_cast<unsigned long long>(i) + 1);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
  parts[blockIdx.x] = sum;
}

}  // namespace

void sum_words(cudaStream_t stream, std::span<const std::byte> data,
               std::span<std::uint64_t> parts) {
  sum_kernel<<<static_cast<unsigned>(parts.size()), 512, 0, stream>>>(
      reinterpret_cast<const unsigned long long*>(data.data()),
      static_cast<std::int64_t>(data.size() / 8),
      reinterpret_cast<unsigned long long*>(parts.data()));
}

}  // namespace causeway::slice::testing
