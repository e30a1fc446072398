// What both merging kernels add up with (cuda_merge.cu, cuda_merge_many.cu).
#pragma once

#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_mma.cuh"

namespace causeway::kernels::attention::parts {

constexpr int kMergeThreads = 256;
constexpr int kMergeUnroll = 8;  // pieces asked for at once
// The product behind is placed when all CTAs of this kernel have been: no more than two an SM.
constexpr int kMergeCtasMax = 264;

// Adds a piece, of which the largest score is at most `above`.
__device__ inline void add_piece(const float2& state, const float4& part, float above, float& sum,
                                 float4& value) {
  const float factor = exp2f(state.x - above);
  sum += state.y * factor;
  value.x += part.x * factor;
  value.y += part.y * factor;
  value.z += part.z * factor;
  value.w += part.w * factor;
}

// What the merging kernel adds up of one element: `above` is the largest score of all.
struct Merged {
  float above = -INFINITY, sum = 0;
  float4 value = {0, 0, 0, 0};

  template <int kCount>
  __device__ void add(const float2 (&state)[kCount], const float4 (&part)[kCount]) {
    float next = above;
#pragma unroll
    for (int j = 0; j < kCount; ++j) next = fmaxf(next, state[j].x);
    rescale(next);
#pragma unroll
    for (int j = 0; j < kCount; ++j) add_piece(state[j], part[j], above, sum, value);
  }
  __device__ void rescale(float next) {
    const float shrink = exp2f(above - next);
    above = next;
    sum *= shrink;
    value = make_float4(value.x * shrink, value.y * shrink, value.z * shrink, value.w * shrink);
  }
  __device__ void store(uint2* target) const {
    const float inverse = 1.0f / sum;
    *target = make_uint2(pack(value.x * inverse, value.y * inverse),
                         pack(value.z * inverse, value.w * inverse));
  }
};

// Enqueues merge_many_kernel, for heads of 64 or 128.
Status merge_many(const SplitArgs& args, std::int64_t size, CudaStream stream);

}  // namespace causeway::kernels::attention::parts
