// The product for a batch's rows of x: sumsᵀ [rows of w × rows of x] = w · xᵀ, w streamed once from
// HBM.
//
// w's tiles of 128 rows are cut into steps of 64 columns; all steps, tile after tile, make one line
// that is dealt out to the CTAs in equal shares ("stream-K"):
//
//   steps  |--- tile 0 ---|--- tile 1 ---|--- tile 2 ---| …
//   CTAs   |<-- 0 -->|<-- 1 -->|<-- 2 -->|<-- 3 -->| …
//
// A tile that several CTAs share is added up by whichever arrives last, always in the order of
// CTAs, so that the result depends neither on timing nor on the rows of x.
//
// One warp feeds w and one x into a ring of stages [w 128×64 | x kBatch×64] by TMA; two warpgroups
// multiply, 64 rows of w each. The ring takes a share of an SM's shared memory (CudaShare) up to 32
// rows of x: the next kernel's CTAs fit beside, fill their rings with weights, and only then wait
// for this one.
#pragma once

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::gemm {

constexpr int kSplitGroups = 2;  // warpgroups that multiply
constexpr int kSplitThreads = 128 * kSplitGroups + 64;

template <int kBatch>
struct SplitRing {
  static constexpr uint32_t kWeightBytes = kSplitRows * kSplitStepK * 2;
  static constexpr uint32_t kInputBytes = kBatch * kSplitStepK * 2;
  static constexpr uint32_t kStageBytes = kWeightBytes + kInputBytes;
  static constexpr int kCtasPerSm = kBatch > 32 ? 1 : 2;
  // Stages, a full and an empty barrier each; 1,024 bytes are for aligning the whole.
  // Above 32 rows all that a CTA may have, less what is declared (`last_words`).
  static constexpr uint32_t shared_bytes(CudaShare share) {
    return kBatch > 32 ? 226 * 1024 : shared_max(share);
  }
  static constexpr uint32_t stages(CudaShare share) {
    return (shared_bytes(share) - 1024) / (kStageBytes + 16);
  }
  static_assert(stages(CudaShare::kLess) >= 2);
};

struct SplitArgs {
  OutputArgs output;
  float4* partials;    // [ctas][first tile, last tile][groups][kBatch/8][128 threads]
  uint32_t* counters;  // [tiles][groups], zero
  int tiles, k_steps;
  uint32_t stages;
};

// This CTA's share of the line of steps, and who shares a tile.
struct SplitShare {
  int64_t steps;
  int k_steps, ctas;

  CAUSEWAY_DEVICE explicit SplitShare(const SplitArgs& args)
      : steps(static_cast<int64_t>(args.tiles) * args.k_steps),
        k_steps(args.k_steps),
        ctas(static_cast<int>(gridDim.x)) {}
  CAUSEWAY_DEVICE int begin(int cta) const { return static_cast<int>(cta * steps / ctas); }
  CAUSEWAY_DEVICE int owner(int step) const {
    return static_cast<int>(((step + int64_t{1}) * ctas - 1) / steps);
  }
};

// Shared-memory addresses of one CTA.
template <int kBatch>
struct SplitPlace {
  using Ring = SplitRing<kBatch>;
  uint32_t memory;  // 1,024-byte aligned
  uint32_t stages;

  CAUSEWAY_DEVICE uint32_t weights(uint32_t stage) const {
    return memory + stage * Ring::kStageBytes;
  }
  CAUSEWAY_DEVICE uint32_t inputs(uint32_t stage) const {
    return weights(stage) + Ring::kWeightBytes;
  }
  CAUSEWAY_DEVICE uint32_t full(uint32_t stage) const {
    return memory + stages * Ring::kStageBytes + stage * 8;
  }
  CAUSEWAY_DEVICE uint32_t empty(uint32_t stage) const { return full(stage) + stages * 8; }
};

// ---- feeding -----------------------------------------------------------------------------------

// One thread feeds w, another one x.
template <int kBatch>
struct SplitFeeder {
  using Ring = SplitRing<kBatch>;
  const SplitArgs& args;
  const CUtensorMap* map;
  SplitPlace<kBatch> place;
  FeedStep at;
  int count;  // steps left
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE void load_weights(uint64_t policy) {
    const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
    const int column = at.step * kSplitStepK;
    ptx::barrier_arrive_expect(full, Ring::kWeightBytes);
    if (args.output.silu_mul) {
      ptx::load_pair_streamed(target, map, column, at.tile * (kSplitRows / 16), full, policy);
    } else {
      ptx::load_box_streamed(target, map, column, at.tile * kSplitRows, full, policy);
    }
    at.advance(args.k_steps);
    cursor.advance();
  }

  // Weights do not depend on the kernel in front: as many as there is room for. Then the rest.
  CAUSEWAY_DEVICE void start_weights() {
    const int first = min(count, static_cast<int>(place.stages));
    const uint64_t policy = ptx::policy_stream();
#pragma unroll 1
    for (int i = 0; i < first; ++i) load_weights(policy);
    count -= first;
  }
  CAUSEWAY_DEVICE void feed_weights() {
    const uint64_t policy = ptx::policy_stream();
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      load_weights(policy);
    }
  }

  CAUSEWAY_DEVICE void feed_inputs() {
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      const uint32_t full = place.full(cursor.stage);
      ptx::barrier_arrive_expect(full, Ring::kInputBytes);
      ptx::load_box(place.inputs(cursor.stage), map, at.step * kSplitStepK, 0, full);
      at.advance(args.k_steps);
      cursor.advance();
    }
  }
};

// ---- results -----------------------------------------------------------------------------------

// An 8×8 block of sums (lane: column l/4 of out, rows 2(l%4) + {0,1}) turned about: row l/4,
// columns 2(l%4) + {0,1}.
CAUSEWAY_DEVICE float2 turned(float low, float high, int lane) {
  // Lane l needs the sums of columns c = 2(l%4) + {0,1} for row r = l/4: they are in the lanes
  // 4c + r/2, low for even r.
  const int row = lane / 4, source = lane % 4 * 8 + row / 2;
  const float a = __shfl_sync(0xFFFFFFFFu, low, source);
  const float b = __shfl_sync(0xFFFFFFFFu, high, source);
  const float c = __shfl_sync(0xFFFFFFFFu, low, source + 4);
  const float d = __shfl_sync(0xFFFFFFFFu, high, source + 4);
  return row % 2 == 0 ? make_float2(a, c) : make_float2(b, d);
}

// ---- multiplying -------------------------------------------------------------------------------

// One of the warpgroups.
template <int kBatch>
struct SplitWorker {
  using Ring = SplitRing<kBatch>;
  static constexpr int kQuads = kBatch / 8;  // float4s of sums a thread holds
  static constexpr int kFlight = kQuads > 8 ? 1 : kQuads > 2 ? 16 / kQuads : 8;
  const SplitArgs& args;
  const SplitShare& share;
  SplitPlace<kBatch> place;
  uint32_t* last_word;  // shared; of this warpgroup
  int group, thread, lane;
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE void multiply(float (&sums)[kBatch / 2], int steps) {
#pragma unroll
    for (int i = 0; i < kBatch / 2; ++i) sums[i] = 0.0f;
    uint32_t previous = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      ptx::barrier_wait(place.full(cursor.stage), cursor.phase);
      const uint64_t w = ptx::tile_descriptor(place.weights(cursor.stage) +
                                              group * (Ring::kWeightBytes / kSplitGroups));
      const uint64_t x = ptx::tile_descriptor(place.inputs(cursor.stage));
      ptx::mma_fence();
#pragma unroll
      for (int k16 = 0; k16 < kSplitStepK / 16; ++k16) ptx::mma(sums, w + k16 * 2, x + k16 * 2);
      ptx::mma_commit();
      ptx::mma_wait<1>();
      // The products of the step before have been read: its stage is free.
      if (step > 0 && lane == 0) ptx::barrier_arrive(place.empty(previous));
      previous = cursor.stage;
      cursor.advance();
    }
    ptx::mma_wait<0>();
    ptx::hold(sums);
    if (lane == 0) ptx::barrier_arrive(place.empty(previous));
  }

  CAUSEWAY_DEVICE float4* partial(int cta, int slot) const {
    return args.partials + ((cta * 2 + slot) * kSplitGroups + group) * (kQuads * 128) + thread;
  }
  // The parts [from, from + kFlight) of a tile's contributors, in flight together, then added in
  // order. Every contributor but the first begins in this tile.
  CAUSEWAY_DEVICE void add_parts(float (&sums)[kBatch / 2], int from, int last, int first,
                                 int first_slot) {
    float4 parts[kFlight][kQuads];
#pragma unroll
    for (int p = 0; p < kFlight; ++p) {
      const int cta = min(from + p, last);
      const float4* theirs = partial(cta, cta == first ? first_slot : 0);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) parts[p][i] = __ldcg(theirs + i * 128);
    }
#pragma unroll
    for (int p = 0; p < kFlight; ++p) {
      if (from + p > last) break;
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        sums[i * 4] += parts[p][i].x;
        sums[i * 4 + 1] += parts[p][i].y;
        sums[i * 4 + 2] += parts[p][i].z;
        sums[i * 4 + 3] += parts[p][i].w;
      }
    }
  }

  // Hands on this CTA's part of a tile. True for the last to arrive, whose sums are then all
  // parts'.
  CAUSEWAY_DEVICE bool add_up(float (&sums)[kBatch / 2], int tile) {
    const int tile_begin = tile * share.k_steps;
    const int first = share.owner(tile_begin);
    const int last = share.owner(tile_begin + share.k_steps - 1);
    const int first_slot = share.begin(first) < tile_begin ? 1 : 0;
    const int self = static_cast<int>(blockIdx.x);
    float4* mine = partial(self, self == first ? first_slot : 0);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      __stcg(mine + i * 128,
             make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]));
    }
    ptx::warpgroup_sync(1 + group);
    if (thread == 0) {
      uint32_t* counter = args.counters + tile * kSplitGroups + group;
      const bool complete =
          ptx::flag_exchange_add(counter, 1) == static_cast<uint32_t>(last - first);
      if (complete) *counter = 0;
      *last_word = complete;
    }
    ptx::warpgroup_sync(1 + group);
    if (*static_cast<volatile uint32_t*>(last_word) == 0) return false;
#pragma unroll
    for (int i = 0; i < kBatch / 2; ++i) sums[i] = 0.0f;
#pragma unroll 1
    for (int cta = first; cta <= last; cta += kFlight) {
      add_parts(sums, cta, last, first, first_slot);
    }
    return true;
  }

  // ---- the end of a tile

  // Blocks of 8 rows of x whose sums go out at a time, by one copy of the code, which the others
  // move up to: another copy would be fetched behind all the weights on their way (0.8 µs).
  static constexpr int kLeave = kQuads > 8 ? kQuads / 8 : 1;

  // Rows m … m + 7 of x with a warp's 16 rows of w: 8 and the 8 below (silu_mul: of gate and of
  // up).
  CAUSEWAY_DEVICE void store_block(const float* quad, int m, int column, uint32_t residual,
                                   uint32_t residual_below) {
    const OutputArgs& output = args.output;
    const float2 upper = turned(quad[0], quad[1], lane);
    const float2 lower = turned(quad[2], quad[3], lane);
    m += lane / 4;
    if (m >= output.m) return;
    if (output.silu_mul) {
      store_silu_mul(output, m, column, upper, lower);
    } else {
      store_plain(output, m, column, upper, residual);
      store_plain(output, m, column + 8, lower, residual_below);
    }
  }

  CAUSEWAY_DEVICE void store(float (&sums)[kBatch / 2], int tile) {
    const int blocks = (tile * kSplitGroups + group) * 4 + thread / 32;  // of 16 rows of w
    const int column = blocks * (args.output.silu_mul ? 8 : 16) + lane % 4 * 2;
    uint32_t residual[kQuads] = {}, residual_below[kQuads] = {};
    ask_residual(residual, args.output, lane / 4, column);
    ask_residual(residual_below, args.output, lane / 4, column + 8);
#pragma unroll 1
    for (int i = 0; i * 8 < args.output.m; i += kLeave) {
#pragma unroll
      for (int j = 0; j < kLeave; ++j) {
        store_block(sums + j * 4, (i + j) * 8, column, residual[j], residual_below[j]);
      }
#pragma unroll
      for (int j = 0; j + kLeave < kQuads; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[j * 4 + e] = sums[(j + kLeave) * 4 + e];
        residual[j] = residual[j + kLeave];
        residual_below[j] = residual_below[j + kLeave];
      }
    }
  }

  CAUSEWAY_DEVICE void work() {
    const int self = static_cast<int>(blockIdx.x);
    const int end = share.begin(self + 1);
    float sums[kBatch / 2];
#pragma unroll 1
    for (int step = share.begin(self); step < end;) {
      const int tile = step / share.k_steps;
      const int steps = min(end, (tile + 1) * share.k_steps) - step;
      multiply(sums, steps);
      step += steps;
      if (steps < share.k_steps && !add_up(sums, tile)) continue;
      store(sums, tile);
    }
  }
};

template <int kBatch>
__global__ void __launch_bounds__(kSplitThreads, SplitRing<kBatch>::kCtasPerSm)
    split_kernel(const __grid_constant__ CUtensorMap x_map,
                 const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ SplitArgs args) {
  extern __shared__ char shared[];
  __shared__ uint32_t last_words[kSplitGroups];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const SplitPlace<kBatch> place = {(base + 1023) & ~1023u, args.stages};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const SplitShare share(args);
  const bool feeds_weights = warp == 4 * kSplitGroups && lane == 0;
  const bool feeds_inputs = warp == 4 * kSplitGroups + 1 && lane == 0;
  const int begin = share.begin(static_cast<int>(blockIdx.x));
  const int count = share.begin(static_cast<int>(blockIdx.x) + 1) - begin;
  SplitFeeder<kBatch> feeder{args,
                             feeds_weights ? &w_map : &x_map,
                             place,
                             {begin / args.k_steps, begin % args.k_steps},
                             count};

  // ---- weights are asked for before anything else ----------------------------------------------
  if (feeds_weights) {
#pragma unroll 1
    for (uint32_t stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), 4 * kSplitGroups);
    }
    ptx::barrier_init_fence();
    feeder.start_weights();
    ptx::dependents_launch();
  }
  __syncthreads();
  ptx::dependency_wait();

  // ---- roles -----------------------------------------------------------------------------------
  if (feeds_weights) {
    feeder.feed_weights();
  } else if (feeds_inputs) {
    feeder.feed_inputs();
  } else if (warp < 4 * kSplitGroups) {
    const int group = warp / 4, thread = static_cast<int>(threadIdx.x) % 128;
    SplitWorker<kBatch>{args, share, place, last_words + group, group, thread, lane}.work();
  }
}

}  // namespace causeway::kernels::gemm
