// A token's own q, k and v as the product left them, prepared in the registers of a warp: norm of
// heads (Qwen3), rotary embedding. What prepare() does in a launch of its own.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_mma.cuh"

namespace causeway::kernels::attention::parts {

// The pair (i, i + size/2) of a head, turned. Said in instructions, so that every kernel rounds
// alike.
__device__ __forceinline__ void rotate(float& low, float& high, float cosine, float sine) {
  const float l = low;
  low = __fmaf_rn(l, cosine, -__fmul_rn(high, sine));
  high = __fmaf_rn(high, cosine, __fmul_rn(l, sine));
}

__device__ __forceinline__ float norm_factor(float squares, int size, float epsilon) {
  return rsqrtf(squares / static_cast<float>(size) + epsilon);
}

// What a row needs to be prepared.
struct FreshArgs {
  const float* table;           // [rows][size]: cosines, sines; null: rows have been prepared
  const __nv_bfloat16* q_norm;  // [size] or null
  const __nv_bfloat16* k_norm;
  float epsilon;
};

__device__ __forceinline__ float2 load_pair(const __nv_bfloat16* from) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
}

// Cosines and sines of a token for the columns that a lane holds of a left operand.
template <int kSize>
struct QueryTurn {
  static constexpr int kHalf = kSize / 32;  // blocks of 16 columns in half a head
  float2 cosine[kHalf][2], sine[kHalf][2];

  // `row`: the token's of the table, in global or shared memory.
  __device__ __forceinline__ void load(const float* row, int lane) {
    const float* turn = row + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int column = i * 16 + part * 8;
        cosine[i][part] = *reinterpret_cast<const float2*>(turn + column);
        sine[i][part] = *reinterpret_cast<const float2*>(turn + kSize / 2 + column);
      }
    }
  }
};

// Query heads of one token as the left operand of a tensor-core tile (cuda_mma.cuh): rows are
// heads, a lane holds rows lane / 4 and lane / 4 + 8. Rows without a head are 0 and stay so.
template <int kSize>
__device__ __forceinline__ void prepare_queries(const FreshArgs& fresh,
                                                const QueryTurn<kSize>& turn, int lane,
                                                uint32_t (&q)[kSize / 16][4]) {
  constexpr int kHalf = QueryTurn<kSize>::kHalf;
  float factor[2] = {1.0f, 1.0f};
  if (fresh.q_norm != nullptr) {
    float squares[2] = {};
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const float2 two = __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(q[i][part]));
        squares[part & 1] += two.x * two.x + two.y * two.y;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      squares[half] += __shfl_xor_sync(0xFFFFFFFFu, squares[half], 1);
      squares[half] += __shfl_xor_sync(0xFFFFFFFFu, squares[half], 2);
      factor[half] = norm_factor(squares[half], kSize, fresh.epsilon);
    }
  }
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int column = i * 16 + part / 2 * 8 + lane % 4 * 2;
      const float2 cosine = turn.cosine[i][part / 2], sine = turn.sine[i][part / 2];
      float2 low = __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(q[i][part]));
      float2 high = __bfloat1622float2(reinterpret_cast<__nv_bfloat162&>(q[i + kHalf][part]));
      if (fresh.q_norm != nullptr) {
        const float2 l = load_pair(fresh.q_norm + column);
        const float2 h = load_pair(fresh.q_norm + kSize / 2 + column);
        low = make_float2(low.x * (factor[part & 1] * l.x), low.y * (factor[part & 1] * l.y));
        high = make_float2(high.x * (factor[part & 1] * h.x), high.y * (factor[part & 1] * h.y));
      }
      rotate(low.x, high.x, cosine.x, sine.x);
      rotate(low.y, high.y, cosine.y, sine.y);
      q[i][part] = pack(low.x, low.y);
      q[i + kHalf][part] = pack(high.x, high.y);
    }
  }
}

// Cosines and sines of a token for the elements that a lane holds of a FreshHead.
template <int kSize>
struct HeadTurn {
  static constexpr int kPairs = kSize / 64;
  float cosine[kPairs], sine[kPairs];

  // `row`: the token's of the table.
  __device__ __forceinline__ void load(const float* row, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      cosine[i] = row[lane * kPairs + i];
      sine[i] = row[kSize / 2 + lane * kPairs + i];
    }
  }
};

// One head of one token, in a warp's registers: of each half of a head, lane l holds kPairs
// elements from l × kPairs on. Gains of a norm are held in the same way.
template <int kSize>
struct FreshHead {
  static constexpr int kPairs = kSize / 64;
  struct alignas(2 * kPairs) Pack {
    __nv_bfloat16 x[kPairs];
  };
  Pack half[2];

  __device__ __forceinline__ void load_gains(const __nv_bfloat16* from, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      half[i] = *reinterpret_cast<const Pack*>(from + i * (kSize / 2) + lane * kPairs);
    }
  }

  // All lanes.
  __device__ __forceinline__ void prepare(bool norm, const FreshHead& gains, float epsilon,
                                          const HeadTurn<kSize>& turn) {
    float low[kPairs], high[kPairs], squares = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      low[i] = __bfloat162float(half[0].x[i]);
      high[i] = __bfloat162float(half[1].x[i]);
      squares += low[i] * low[i] + high[i] * high[i];
    }
    float factor = 1.0f;
    if (norm) factor = norm_factor(warp_sum(squares), kSize, epsilon);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if (norm) {
        low[i] *= factor * __bfloat162float(gains.half[0].x[i]);
        high[i] *= factor * __bfloat162float(gains.half[1].x[i]);
      }
      rotate(low[i], high[i], turn.cosine[i], turn.sine[i]);
      half[0].x[i] = __float2bfloat16_rn(low[i]);
      half[1].x[i] = __float2bfloat16_rn(high[i]);
    }
  }
};

}  // namespace causeway::kernels::attention::parts
