// A token's own q and k as the product left them, prepared by a warp, in its registers or where
// they lie in shared memory: norm of heads (Qwen3), rotary embedding. What prepare() does in a
// launch of its own.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::attention::parts {

// The pair (i, i + size/2) of a head, rotated. Said in instructions, so that every kernel rounds
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
struct FusedPrepareArgs {
  const float* table;           // [rows][size]: cosines, sines; null: rows have been prepared
  const __nv_bfloat16* q_norm;  // [size] or null
  const __nv_bfloat16* k_norm;
  float epsilon;
  float norm_offset;  // norms multiply by norm_offset + weight; of PreparedRows alone
};

// Cosines and sines of a token for the elements that a lane holds of a PreparedHead.
template <int kSize>
struct RopeAngles {
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
struct PreparedHead {
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
  __device__ __forceinline__ void prepare(bool norm, const PreparedHead& gains, float epsilon,
                                          const RopeAngles<kSize>& angles) {
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
      rotate(low[i], high[i], angles.cosine[i], angles.sine[i]);
      half[0].x[i] = __float2bfloat16_rn(low[i]);
      half[1].x[i] = __float2bfloat16_rn(high[i]);
    }
  }
};

// Pieces of 16 bytes that change places with one another in a row. Rows of 96 elements begin 64
// bytes into a line of the banks every other time, which parts two rows next to each other.
template <int kSize>
constexpr int kSwizzled = kSize % 64 == 0 ? 8 : 4;
static_assert(kSwizzled<96> * 16 == 64);

// Bytes from the first of rows of heads in shared memory on: 16-byte pieces, swizzled, so that a
// piece of eight rows meets no bank twice: piece c of row r at place c ^ (r mod 8), or of 96
// elements at c ^ (r / 2 mod 4).
template <int kSize>
__device__ __forceinline__ uint32_t place(int row, int chunk) {
  static_assert(kSize % 64 == 0 || kSize == 96);
  const int swizzle = kSwizzled<kSize> == 8 ? row & 7 : row / 2 & 3;
  return static_cast<uint32_t>(row * kSize * 2 + ((chunk ^ swizzle) << 4));
}

// Where the piece lies that is `chunks` behind one at `address`, of rows that begin at multiples of
// 128 bytes, or 64. `chunks` is a constant whose bits the piece's own number has not: then this is
// an instruction or none.
template <int kSize>
__device__ __forceinline__ uint32_t further(uint32_t address, int chunks) {
  constexpr int kPieces = kSwizzled<kSize>;
  return (address ^ static_cast<uint32_t>(chunks % kPieces << 4)) +
         static_cast<uint32_t>(chunks / kPieces * (kPieces * 16));
}

// Eight heads as a right operand of the tensor cores: this lane reads row `row` of those that begin
// at `source`.
template <int kSize>
__device__ __forceinline__ void read_operand(uint32_t (&q)[kSize / 16][2], uint32_t source, int row,
                                             int lane) {
  const uint32_t first = source + place<kSize>(row, lane / 8);
#pragma unroll
  for (int i = 0; i < kSize / 16; i += 2) {
    uint32_t four[4];
    ptx::load_matrices(four, further<kSize>(first, i * 2));
    q[i][0] = four[0];
    q[i][1] = four[1];
    q[i + 1][0] = four[2];
    q[i + 1][1] = four[3];
  }
}

// Heads of one token, prepared where they lie in such rows: some rows at once, a team of lanes a
// row, a piece of each half a lane. In shared memory it is a loop over rows; in the registers of
// a tensor-core operand every element would be an instruction of its own. A half of 96 elements is
// six pieces: two of its team's eight lanes do the work of the sixth once more, and write nothing.
template <int kSize>
struct PreparedRows {
  static constexpr int kPieces = kSize / 16;
  static constexpr int kTeam = kPieces == 6 ? 8 : kPieces;
  static constexpr int kAtOnce = 32 / kTeam;

  static __device__ __forceinline__ bool has_piece(int lane) {
    return kTeam == kPieces || lane % kTeam < kPieces;
  }
  static __device__ __forceinline__ int piece_of(int lane) {
    return kTeam == kPieces ? lane % kTeam : min(lane % kTeam, kPieces - 1);
  }

  struct Gains {
    Bf16x8 half[2];

    __device__ __forceinline__ void load(const __nv_bfloat16* from, int lane) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        half[i] = *reinterpret_cast<const Bf16x8*>(from + i * (kSize / 2) + piece_of(lane) * 8);
      }
    }
  };

  // All lanes: rows [first, first + count). `angles`: the token's row of the table. kOffset: the
  // norm's offset may differ from 0.
  template <bool kOffset>
  static __device__ __forceinline__ void prepare(char* rows, int first, int count,
                                                 const float* angles, bool norm, const Gains& gains,
                                                 const FusedPrepareArgs& args, int lane) {
    const int chunk = piece_of(lane);
#pragma unroll 1
    for (int from = 0; from < count; from += kAtOnce) {
      const int index = from + lane / kTeam;
      const int row = first + min(index, count - 1);
      const uint32_t at = place<kSize>(row, chunk);
      const uint32_t half = kTeam == kPieces ? at ^ kSize : place<kSize>(row, chunk + kPieces);
      auto* low_place = reinterpret_cast<Bf16x8*>(rows + at);
      auto* high_place = reinterpret_cast<Bf16x8*>(rows + half);
      float low[8], high[8];
      widen(*low_place, low);
      widen(*high_place, high);
      if (norm) scale<kOffset>(low, high, gains, args, has_piece(lane));
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        const auto* four = reinterpret_cast<const float4*>(angles + chunk * 8 + i);
        const float4 cosine = four[0], sine = four[kSize / 2 / 4];
        rotate(low[i], high[i], cosine.x, sine.x);
        rotate(low[i + 1], high[i + 1], cosine.y, sine.y);
        rotate(low[i + 2], high[i + 2], cosine.z, sine.z);
        rotate(low[i + 3], high[i + 3], cosine.w, sine.w);
      }
      __syncwarp();  // lanes beyond the last row have read it too
      if (index < count && has_piece(lane)) {
        *low_place = narrow(low);
        *high_place = narrow(high);
      }
    }
  }

  template <bool kOffset>
  static __device__ __forceinline__ float gained(float factor, float gain, float shift) {
    return kOffset ? __fmaf_rn(factor, gain, shift) : __fmul_rn(factor, gain);
  }

  // The norm. Sums in instructions: every instance of a kernel must round alike. `counts`: the
  // lane's elements are no other lane's.
  template <bool kOffset>
  static __device__ __forceinline__ void scale(float (&low)[8], float (&high)[8],
                                               const Gains& gains, const FusedPrepareArgs& args,
                                               bool counts) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      squares = __fmaf_rn(low[i], low[i], squares);
      squares = __fmaf_rn(high[i], high[i], squares);
    }
    if (!counts) squares = 0;
#pragma unroll
    for (int lanes = kTeam / 2; lanes > 0; lanes /= 2) {
      squares += __shfl_xor_sync(0xFFFFFFFFu, squares, lanes);
    }
    const float factor = norm_factor(squares, kSize, args.epsilon);
    const float shift = kOffset ? __fmul_rn(factor, args.norm_offset) : 0;
    float gain[2][8];
    widen(gains.half[0], gain[0]);
    widen(gains.half[1], gain[1]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      low[i] = __fmul_rn(low[i], gained<kOffset>(factor, gain[0][i], shift));
      high[i] = __fmul_rn(high[i], gained<kOffset>(factor, gain[1][i], shift));
    }
  }
};

}  // namespace causeway::kernels::attention::parts
