// The experts of many tokens: products of tiles by wgmma, bound by the matrix peak. An expert's
// tokens are cut into chunks of up to 160; a tile is a chunk by 256 rows of weights: 128 of gate
// and the same 128 of up, so that a CTA has all that its activation needs, or 256 of down.
//
//   sumsᵀ [256 rows of weights × tokens] = weights · tokensᵀ
//
// With the weights on the side that a product fixes at 64 rows, the tokens are the side that comes
// in eights: an expert's last chunk wastes at most 31 rows. One warpgroup feeds a ring of stages
// [weights 256 × 64 | tokens 160 × 64], weights by TMA, tokens gathered row by row with
// asynchronous copies; two warpgroups multiply. CTAs stay and take tiles in turn, so that feeding
// goes on while results are stored.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/moe/cuda_parts.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ring_cursor.cuh"

namespace causeway::kernels::moe {

constexpr int kTileTokens = 160;
constexpr int kTileUnit = 32;   // what a chunk is rounded up to
constexpr int kTileBox = 128;   // rows of weights that one TMA load brings
constexpr int kTileStepK = 64;  // 128 bytes, the swizzle's width
constexpr int kTileThreads = 384;
constexpr uint32_t kTileStages = 4;
constexpr uint32_t kTileBoxBytes = kTileBox * kTileStepK * 2;
constexpr uint32_t kTileWeightBytes = 2 * kTileBoxBytes;
constexpr uint32_t kTileStageBytes = kTileWeightBytes + kTileTokens * kTileStepK * 2;
constexpr uint32_t kTileSharedBytes = kTileStages * (kTileStageBytes + 16) + 1024;
static_assert(kTileSharedBytes <= 227 * 1024);

struct TileArgs {
  Groups groups;
  const CUtensorMap* maps[2];  // [experts]: gate and up, or down twice
  const __nv_bfloat16* x;      // [tokens][depth] (gated), or [rows][depth]
  __nv_bfloat16* out;          // [rows][features]
  int depth;                   // multiple of kTileStepK
  int features;                // of out
  int tiles;                   // of an expert's weights
  int k;                       // choices of a token
};

struct TilePlace {
  uint32_t memory;  // 1,024-byte aligned

  CAUSEWAY_DEVICE uint32_t weights(uint32_t stage) const {
    return memory + stage * kTileStageBytes;
  }
  CAUSEWAY_DEVICE uint32_t tokens(uint32_t stage) const {
    return weights(stage) + kTileWeightBytes;
  }
  CAUSEWAY_DEVICE uint32_t full(uint32_t stage) const {
    return memory + kTileStages * kTileStageBytes + stage * 8;
  }
  CAUSEWAY_DEVICE uint32_t empty(uint32_t stage) const { return full(stage) + kTileStages * 8; }
};

using TileCursor = FixedRingCursor<kTileStages>;

// The tiles that a CTA does.
struct TileWalk {
  int item, items;

  CAUSEWAY_DEVICE explicit TileWalk(const TileArgs& args)
      : item(static_cast<int>(blockIdx.x)), items(*args.groups.chunks * args.tiles) {}
  CAUSEWAY_DEVICE bool there() const { return item < items; }
  CAUSEWAY_DEVICE void advance() { item += static_cast<int>(gridDim.x); }
};

CAUSEWAY_DEVICE void acquire_map(const CUtensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// ---- feeding, one warpgroup --------------------------------------------------------------------

template <bool kGated>
struct TileFeeder {
  static constexpr int kRowsEach = kTileTokens / 16;  // a thread's: every sixteenth
  static constexpr int kLag = 2;                      // stages whose copies are on their way
  const TileArgs& args;
  TilePlace place;
  int thread;
  TileCursor cursor = {};
  TileCursor arrived = {};
  int open = 0;  // stages that were asked for and not yet told to be there

  template <int kOpen>
  CAUSEWAY_DEVICE void tell() {
    ptx::wait_copies<kOpen>();
    ptx::proxy_fence();
    ptx::barrier_arrive(place.full(arrived.stage));
    arrived.advance();
    --open;
  }

  // `source`: byte offsets of this thread's rows of x; ~0: zeros, there is no such token.
  CAUSEWAY_DEVICE void feed(const int4& chunk, int first_row, const uint32_t (&row)[kRowsEach],
                            int column) {
    const int units = (chunk.z + kTileUnit - 1) / kTileUnit;
    ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
    if (thread == 0) {
      const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
      ptx::barrier_arrive_expect(full, kTileWeightBytes);
      ptx::load_box(target, args.maps[0] + chunk.x, column, first_row, full);
      ptx::load_box(target + kTileBoxBytes, args.maps[1] + chunk.x, column,
                    first_row + (kGated ? 0 : kTileBox), full);
    }
    const int piece = thread % 8;
    const uint32_t target = place.tokens(cursor.stage);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int r = thread / 8 + 16 * i;
      if (r >= units * kTileUnit) break;
      const bool there = row[i] != ~0u;
      const __nv_bfloat16* source =
          args.x + (there ? int64_t{row[i]} * args.depth : 0) + column + piece * 8;
      ptx::copy_async(target + r * 128 + ((piece ^ (r & 7)) << 4), source, there);
    }
    ptx::commit_copies();
    cursor.advance();
    if (++open > kLag) tell<kLag>();
  }

  CAUSEWAY_DEVICE void run() {
    for (TileWalk walk(args); walk.there(); walk.advance()) {
      const int4 chunk = args.groups.chunk[walk.item / args.tiles];
      uint32_t row[kRowsEach];
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const int r = thread / 8 + 16 * i;
        row[i] = ~0u;
        if (r >= chunk.z) continue;
        row[i] = static_cast<uint32_t>(kGated ? args.groups.row_pair[chunk.y + r] / args.k
                                              : chunk.y + r);
      }
      if (thread == 0) {
        acquire_map(args.maps[0] + chunk.x);
        acquire_map(args.maps[1] + chunk.x);
      }
      const int first_row = walk.item % args.tiles * (kGated ? kTileBox : 2 * kTileBox);
      for (int column = 0; column < args.depth; column += kTileStepK) {
        feed(chunk, first_row, row, column);
      }
    }
    if (open > 1) tell<1>();
    if (open > 0) tell<0>();
  }
};

// ---- multiplying, two warpgroups ---------------------------------------------------------------

// Sums of a chunk of so many units of tokens: a power of two of them, and maybe one more.
template <int kUnits>
struct TileSums {
  static constexpr int kMain = kUnits >= 4 ? 64 : kUnits >= 2 ? 32 : 16;
  static constexpr bool kMore = kMain < kUnits * 16;
  float main[2][kMain];
  float more[2][kMore ? 16 : 4];
};

template <bool kGated>
struct TileWorker {
  const TileArgs& args;
  TilePlace place;
  int group, warp, lane;  // warp: of the group
  TileCursor cursor = {};

  template <int kUnits>
  CAUSEWAY_DEVICE void multiply_step(TileSums<kUnits>& sums) {
    const uint64_t w[2] = {
        ptx::tile_descriptor(place.weights(cursor.stage) + group * (kTileBoxBytes / 2)),
        ptx::tile_descriptor(place.weights(cursor.stage) + kTileBoxBytes +
                             group * (kTileBoxBytes / 2))};
    const uint64_t x = ptx::tile_descriptor(place.tokens(cursor.stage));
    const uint64_t x_more =
        ptx::tile_descriptor(place.tokens(cursor.stage) + TileSums<kUnits>::kMain * 2 * 128);
    ptx::mma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kTileStepK / 16; ++k16) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        ptx::mma(sums.main[b], w[b] + k16 * 2, x + k16 * 2);
        if constexpr (TileSums<kUnits>::kMore) {
          ptx::mma(sums.more[b], w[b] + k16 * 2, x_more + k16 * 2);
        }
      }
    }
    ptx::mma_commit();
  }

  template <int kUnits>
  CAUSEWAY_DEVICE void multiply(TileSums<kUnits>& sums) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      for (float& sum : sums.main[b]) sum = 0.0f;
      for (float& sum : sums.more[b]) sum = 0.0f;
    }
    uint32_t previous = 0;
    for (int column = 0; column < args.depth; column += kTileStepK) {
      ptx::barrier_wait_covered(place.full(cursor.stage), cursor.phase);
      multiply_step(sums);
      ptx::mma_wait<1>();
      // The products of the step before have been read: its stage is free.
      if (column > 0 && lane == 0) ptx::barrier_arrive(place.empty(previous));
      previous = cursor.stage;
      cursor.advance();
    }
    ptx::mma_wait<0>();
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      ptx::hold(sums.main[b]);
      if constexpr (TileSums<kUnits>::kMore) ptx::hold(sums.more[b]);
    }
    if (lane == 0) ptx::barrier_arrive(place.empty(previous));
  }

  static CAUSEWAY_DEVICE float silu(float x) { return x / (1.0f + __expf(-x)); }

  // Eight tokens from `token` on, 16 features from `feature` on, of this lane's four sums. Turned
  // about, a lane has two neighbouring features of one token.
  CAUSEWAY_DEVICE void store(const int4& chunk, int token, int feature, const float (&v)[4]) {
    const uint32_t upper = ptx::transpose(pack(v[0], v[1]));
    const uint32_t lower = ptx::transpose(pack(v[2], v[3]));
    const int in_chunk = token + lane / 4;
    if (in_chunk >= chunk.z || feature >= args.features) return;
    __nv_bfloat16* out =
        args.out + int64_t{chunk.y + in_chunk} * args.features + feature + lane % 4 * 2;
    *reinterpret_cast<uint32_t*>(out) = upper;
    *reinterpret_cast<uint32_t*>(out + 8) = lower;
  }

  template <int kCount>
  CAUSEWAY_DEVICE void store_all(const int4& chunk, int first_token, int tile,
                                 const float (&sums)[2][kCount]) {
    const int in_box = group * 64 + warp * 16;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      const int token = first_token + j * 8;
      if (token >= chunk.z) break;
      if constexpr (kGated) {
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) v[i] = silu(sums[0][j * 4 + i]) * sums[1][j * 4 + i];
        store(chunk, token, tile * kTileBox + in_box, v);
      } else {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const float v[4] = {sums[b][j * 4], sums[b][j * 4 + 1], sums[b][j * 4 + 2],
                              sums[b][j * 4 + 3]};
          store(chunk, token, (2 * tile + b) * kTileBox + in_box, v);
        }
      }
    }
  }

  template <int kUnits>
  CAUSEWAY_DEVICE void tile_of(const int4& chunk, int tile) {
    TileSums<kUnits> sums;
    multiply(sums);
    store_all(chunk, 0, tile, sums.main);
    if constexpr (TileSums<kUnits>::kMore) {
      store_all(chunk, TileSums<kUnits>::kMain * 2, tile, sums.more);
    }
  }

  CAUSEWAY_DEVICE void run() {
    for (TileWalk walk(args); walk.there(); walk.advance()) {
      const int4 chunk = args.groups.chunk[walk.item / args.tiles];
      const int tile = walk.item % args.tiles;
      switch ((chunk.z + kTileUnit - 1) / kTileUnit) {
        case 1: tile_of<1>(chunk, tile); break;
        case 2: tile_of<2>(chunk, tile); break;
        case 3: tile_of<3>(chunk, tile); break;
        case 4: tile_of<4>(chunk, tile); break;
        default: tile_of<5>(chunk, tile); break;
      }
    }
  }
};

// ---- the kernel --------------------------------------------------------------------------------

template <bool kGated>
__global__ void __launch_bounds__(kTileThreads, 1)
    tile_kernel(const __grid_constant__ TileArgs args) {
  extern __shared__ char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const TilePlace place = {(base + 1023) & ~1023u};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < kTileStages; ++stage) {
      ptx::barrier_init(place.full(stage), 1 + 128);
      ptx::barrier_init(place.empty(stage), 8);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  wait_for_predecessor();
  if (warp < 4) {
    ptx::registers_give<56>();
    TileFeeder<kGated>{args, place, static_cast<int>(threadIdx.x)}.run();
  } else {
    ptx::registers_take<224>();
    TileWorker<kGated>{args, place, warp / 4 - 1, warp % 4, lane}.run();
  }
}

}  // namespace causeway::kernels::moe
