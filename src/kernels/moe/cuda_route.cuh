// One token's choice of experts, by one warp.
#pragma once

#include <cstdint>

#include "kernels/cuda_launch.cuh"
#include "kernels/moe/cuda_divide.cuh"
#include "kernels/moe/cuda_parts.cuh"

namespace causeway::kernels::moe {

struct Scores {
  const float* of_token;  // [experts]
  int experts, k;
  bool normalise;
};

// The choice that lane l has is the token's l-th.
struct Choice {
  int expert;
  float weight;
};

// Unsigned numbers in the order of scores, NaN last; 0 is none of them.
__device__ __forceinline__ uint32_t order_key(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);
  if (isnan(score)) return 0x007FFFFFu;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float score_of(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}

// The best k, the lower index among equals. `kEach`: experts a lane.
template <int kEach>
__device__ __forceinline__ Choice route_token(const Scores& s, int lane) {
  constexpr uint32_t kAll = 0xFFFFFFFFu;
  uint32_t keys[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = lane + 32 * i;
    keys[i] = expert < s.experts ? order_key(s.of_token[expert]) : 0;
  }
  uint32_t mine = 0, largest = 0;
  int my_expert = 0;
#pragma unroll 1
  for (int choice = 0; choice < s.k; ++choice) {
    uint32_t best = keys[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) best = max(best, keys[i]);
    best = __reduce_max_sync(kAll, best);
    int at = kExpertsMax;
#pragma unroll
    for (int i = kEach - 1; i >= 0; --i) {
      if (keys[i] == best) at = lane + 32 * i;
    }
    at = __reduce_min_sync(kAll, at);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i == at) keys[i] = 0;
    }
    if (choice == 0) largest = best;
    if (lane == choice) {
      mine = best;
      my_expert = at;
    }
  }
  const float top = score_of(largest);
  const float weight = lane < s.k ? expf(score_of(mine) - top) : 0.0f;
  float total = weight;
  if (!s.normalise) {
    total = 0;
#pragma unroll 1
    for (int expert = lane; expert < s.experts; expert += 32) {
      total += expf(s.of_token[expert] - top);
    }
  }
  return {my_expert, divide(weight, warp_sum(total))};
}

}  // namespace causeway::kernels::moe
