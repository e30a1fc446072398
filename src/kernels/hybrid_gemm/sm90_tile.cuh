// What both ways of HybridGEMM's kernel share: arguments, shared-memory map, pipeline position, and
// the store of a 64×128 block of f32 sums as bf16.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/hybrid_gemm/hybrid_gemm.h"
#include "kernels/ptx/device.cuh"

namespace causeway::kernels::hybrid_gemm {

constexpr int kConsumerGroups = 2;                      // warpgroups that multiply
constexpr int kThreads = 128 * (1 + kConsumerGroups);   // and one whose warps feed them
constexpr uint32_t kBoxRows = 64;                       // rows of one X load
constexpr uint32_t kBoxBytes = kBoxRows * kStepK * 2;   // 8 KiB
constexpr uint32_t kWeightBytes = kTileN * kStepK * 2;  // 16 KiB: a W tile of one K step

// Output-stationary CTAs: four stages of [X 256×64 | W 128×64].
constexpr uint32_t kStages = 4;
constexpr uint32_t kStageBytes = kStreamRows * kStepK * 2 + kWeightBytes;
// Relaying CTAs: each of the four feeding warps has its own batch of W tiles on their way.
constexpr uint32_t kRelayWarps = 4;
constexpr int kRelayBatch = 3;
constexpr uint32_t kTileMemory = kStages * kStageBytes;
static_assert(kRelayWarps * kRelayBatch * kWeightBytes <= kTileMemory);
// Barriers lie behind the tiles; 1,024 bytes are for aligning the whole.
constexpr uint32_t kBarriersMax = 8;
static_assert(2 * kStages <= kBarriersMax && kRelayWarps <= kBarriersMax);
constexpr uint32_t kSharedBytes = kTileMemory + kBarriersMax * 8 + 1024;
static_assert(kSharedBytes <= 227 * 1024);

struct KernelArgs {
  __nv_bfloat16* o;  // [m × n], row stride o_stride
  int64_t o_stride;
  const __nv_bfloat16* bias;      // [n]; null: none
  const __nv_bfloat16* residual;  // [m × n], row stride residual_stride; null: none
  int64_t residual_stride;
  char* scratch;    // the ring: W tiles [slots][k_steps][128×64 swizzled]
  uint32_t* flags;  // ready [slots][k_steps], done [slots]. All zero at the start.
  int m, n, n_symmetric;
  int k_steps;
  int cluster;  // CTAs of a cluster
  int symmetric_ctas, asymmetric_ctas, relay_ctas;
  int slots, ring_group;
  bool vector_stores;  // rows of O and n allow 16-byte stores
};

// This CTA and this thread.
struct Place {
  uint32_t memory;    // shared address of the tiles, 1,024-byte aligned
  uint32_t barriers;  // shared address of the barriers
  uint32_t rank;      // in the cluster
  int warp, lane;     // of this thread in the CTA

  CAUSEWAY_DEVICE uint32_t barrier(uint32_t index) const { return barriers + index * 8; }
};

CAUSEWAY_DEVICE int ceil_div_int(int a, int b) { return (a + b - 1) / b; }

// 4×4 transposition of words within each quad of lanes: lane t receives word t of every lane.
CAUSEWAY_DEVICE void transpose_quad(uint32_t (&w)[4], int lane) {
  const bool odd = lane & 1;
  const bool upper = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, odd ? w[i] : w[i + 1], 1);
    (odd ? w[i] : w[i + 1]) = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, upper ? w[i] : w[i + 2], 2);
    (upper ? w[i] : w[i + 2]) = other;
  }
}

// What is added to the sum at (row, column).
CAUSEWAY_DEVICE float added_at(const KernelArgs& args, int row, int column) {
  float value = args.bias != nullptr ? __bfloat162float(args.bias[column]) : 0.0f;
  if (args.residual != nullptr) {
    value +=
        __bfloat162float(args.residual[static_cast<int64_t>(row) * args.residual_stride + column]);
  }
  return value;
}

// Adds bias and residual to the warpgroup's block of sums, in the registers' own order: every
// element of O is read here by the quad of lanes that will write it, before it does.
CAUSEWAY_DEVICE void add_block(const KernelArgs& args, float (&sums)[64], int row, int column,
                               int n_limit, const Place& place) {
  const int first_row = row + (place.warp % 4) * 16 + place.lane / 4;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int r = first_row + i / 2 % 2 * 8;
    const int c = column + i / 4 * 8 + (place.lane % 4) * 2 + i % 2;
    if (r < args.m && c < n_limit) sums[i] += added_at(args, r, c);
  }
}

// Writes the warpgroup's block of sums to O at (row, column), rows < m, columns < n_limit. A quad
// of lanes holds 8 columns in pieces of 2; transposed, each lane stores 16 bytes of one row.
CAUSEWAY_DEVICE void store_block(const KernelArgs& args, const float (&sums)[64], int row,
                                 int column, int n_limit, const Place& place) {
  const int first_row = row + (place.warp % 4) * 16 + place.lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = first_row + half * 8;
    __nv_bfloat16* target = args.o + static_cast<int64_t>(r) * args.o_stride;
#pragma unroll
    for (int n8 = 0; n8 < 16; n8 += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = pack(sums[(n8 + i) * 4 + half * 2], sums[(n8 + i) * 4 + half * 2 + 1]);
      }
      if (args.vector_stores) {
        transpose_quad(words, place.lane);
        const int c = column + (n8 + place.lane % 4) * 8;
        if (r < args.m && c < n_limit) {
          *reinterpret_cast<uint4*>(target + c) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int c = column + (n8 + i) * 8 + (place.lane % 4) * 2;
        const __nv_bfloat162 both = reinterpret_cast<const __nv_bfloat162&>(words[i]);
        if (r < args.m && c < n_limit) target[c] = both.x;
        if (r < args.m && c + 1 < n_limit) target[c + 1] = both.y;
      }
    }
  }
}

}  // namespace causeway::kernels::hybrid_gemm
