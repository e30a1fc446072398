// Random matrices made on the GPU, for tests and benchmarks.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace causeway::kernels::testing {

// The finaliser of SplitMix64: one number of a seed and an index.
__device__ inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// In [-1, 1).
__device__ inline float symmetric(std::uint64_t mixed) {
  return static_cast<float>(static_cast<int>(mixed >> 40)) * 0x1.0p-23f - 1.0f;
}

// static: every program has its own copy.
static __global__ void fill_random(__nv_bfloat16* data, std::int64_t count, std::uint64_t seed,
                                   float scale = 1) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    data[i] = __float2bfloat16_rn(symmetric(mix(seed ^ static_cast<std::uint64_t>(i))) * scale);
  }
}

constexpr std::uint16_t kPoison = 0xFFFF;  // a bf16 NaN; twice: an f32 NaN

// Values in [-1, 1) inside [rows × columns], NaN in the padding of each row.
static __global__ void fill_padded(std::uint16_t* matrix, std::int64_t rows, std::int64_t columns,
                                   std::int64_t stride, std::uint64_t seed) {
  const std::int64_t size = rows * stride;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < size;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const float value = symmetric(mix(seed ^ static_cast<std::uint64_t>(i)));
    matrix[i] = i % stride < columns ? __bfloat16_as_ushort(__float2bfloat16_rn(value)) : kPoison;
  }
}

}  // namespace causeway::kernels::testing
