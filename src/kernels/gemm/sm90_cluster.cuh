// The product for a batch's rows of x, which are then as dear to read as w: sums [rows of x × rows
// of w] = x · wᵀ, by a cluster of CTAs that share rows of w and divide k.
//
//                k ─▶  rank 0     rank 1
//   tile of w's rows  [ CTA 2i | CTA 2i+1 ]   cluster i
//
// A CTA of a pair reads kRows × k/2 of w and only half the columns of x: long rows of w then keep
// all SMs busy, and x is read once a pair. At the end the ranks lay their sums into shared memory,
// and each adds up its columns of both, in the order of ranks. Clusters of one take tile after tile
// instead.
//
// x's rows are the rows of the tensor cores' tiles, w's their columns, of which there may be any
// multiple of 32: so tiles of w fit the number of SMs. One warp feeds w and one x into a ring of
// stages [x kBatch×64 | w kRows×64] by TMA; a warpgroup, for more than 64 rows of x two,
// multiplies.
#pragma once

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::gemm {

template <int kBatch, int kRows>
struct ClusterRing {
  static constexpr int kGroups = kBatch > 64 ? 2 : 1;  // warpgroups that multiply
  static constexpr int kThreads = 128 * kGroups + 64;
  static constexpr uint32_t kInputBytes = kBatch * kClusterStepK * 2;
  static constexpr uint32_t kWeightBytes = kRows * kClusterStepK * 2;
  static constexpr uint32_t kStageBytes = kInputBytes + kWeightBytes;
  // Sums in shared memory [kBatch][kPitch]; the pitch spreads a warp's stores over the banks.
  static constexpr int kPitch = kRows + 8;
  // All that a CTA may have: stages, a full and an empty barrier each; 1,024 bytes are for aligning
  // the whole.
  static constexpr uint32_t kSharedBytes = 227 * 1024;
  static constexpr uint32_t kStages = (kSharedBytes - 1024) / (kStageBytes + 16);
  static_assert(kStages >= 4 && kBatch * kPitch * 4 + 1024 <= kSharedBytes);
};

struct ClusterArgs {
  OutputArgs output;
  int tiles, k_steps;
  uint32_t stages;
};

// Shared-memory addresses of one CTA.
template <int kBatch, int kRows>
struct ClusterPlace {
  using Ring = ClusterRing<kBatch, kRows>;
  uint32_t memory;  // 1,024-byte aligned
  uint32_t stages;

  CAUSEWAY_DEVICE uint32_t inputs(uint32_t stage) const {
    return memory + stage * Ring::kStageBytes;
  }
  CAUSEWAY_DEVICE uint32_t weights(uint32_t stage) const {
    return inputs(stage) + Ring::kInputBytes;
  }
  CAUSEWAY_DEVICE uint32_t full(uint32_t stage) const {
    return memory + stages * Ring::kStageBytes + stage * 8;
  }
  CAUSEWAY_DEVICE uint32_t empty(uint32_t stage) const { return full(stage) + stages * 8; }
};

// What a CTA has to do: tiles first, first + stride, …; of each the steps [begin, end) along k.
struct ClusterShare {
  int first, stride, tiles, begin, end;

  CAUSEWAY_DEVICE ClusterShare(const ClusterArgs& args, int rank, int ranks)
      : first(static_cast<int>(blockIdx.x) / ranks),
        stride(static_cast<int>(gridDim.x) / ranks),
        tiles(args.tiles),
        begin(args.k_steps * rank / ranks),
        end(args.k_steps * (rank + 1) / ranks) {}
};

// ---- feeding -----------------------------------------------------------------------------------

// One thread feeds w, another one x.
template <int kBatch, int kRows>
struct ClusterFeeder {
  using Ring = ClusterRing<kBatch, kRows>;
  const ClusterArgs& args;
  const CUtensorMap* map;
  ClusterPlace<kBatch, kRows> place;
  ClusterShare share;
  int tile, step;
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE bool more() const { return tile < share.tiles; }
  CAUSEWAY_DEVICE void advance() {
    if (++step == share.end) {
      step = share.begin;
      tile += share.stride;
    }
    cursor.advance();
  }

  CAUSEWAY_DEVICE void load_weights(uint64_t policy) {
    const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
    ptx::barrier_arrive_expect(full, Ring::kWeightBytes);
    if (args.output.silu_mul) {
      ptx::load_pair_streamed(target, map, step * kClusterStepK, tile * (kRows / 16), full, policy);
    } else {
      ptx::load_box_streamed(target, map, step * kClusterStepK, tile * kRows, full, policy);
    }
    advance();
  }
  // Weights do not depend on the kernel in front: as many as there is room for. Then the rest.
  CAUSEWAY_DEVICE void start_weights() {
    const uint64_t policy = ptx::policy_stream();
    for (uint32_t i = 0; i < place.stages && more(); ++i) load_weights(policy);
  }
  CAUSEWAY_DEVICE void feed_weights() {
    const uint64_t policy = ptx::policy_stream();
    while (more()) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      load_weights(policy);
    }
  }
  CAUSEWAY_DEVICE void feed_inputs() {
    while (more()) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      const uint32_t full = place.full(cursor.stage);
      ptx::barrier_arrive_expect(full, Ring::kInputBytes);
      ptx::load_box(place.inputs(cursor.stage), map, step * kClusterStepK, 0, full);
      advance();
    }
  }
};

// ---- multiplying -------------------------------------------------------------------------------

// A thread's sums of 64 rows of x × kRows rows of w, in blocks of 8 columns.
template <int kRows>
struct ClusterSums {
  static constexpr int kWide = kRows / 128, kHalf = kRows % 128 / 64, kQuarter = kRows % 64 / 32;
  static_assert(kWide * 128 + kHalf * 64 + kQuarter * 32 == kRows);
  float wide[kWide > 0 ? kWide : 1][64];
  float half[32];
  float quarter[16];

  CAUSEWAY_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < kWide * 64; ++i) wide[i / 64][i % 64] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHalf * 32; ++i) half[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < kQuarter * 16; ++i) quarter[i] = 0.0f;
  }
  // Sums (2 · below, 2 · below + 1) of block b; constants where this is unrolled.
  CAUSEWAY_DEVICE float2 pair(int b, int below) const {
    const int i = below * 2;
    if (b < kWide * 16) {
      return make_float2(wide[b / 16][b % 16 * 4 + i], wide[b / 16][b % 16 * 4 + i + 1]);
    }
    b -= kWide * 16;
    if (b < kHalf * 8) return make_float2(half[b * 4 + i], half[b * 4 + i + 1]);
    b -= kHalf * 8;
    return make_float2(quarter[b * 4 + i], quarter[b * 4 + i + 1]);
  }
  // One step of 16 columns of x and w (descriptors).
  CAUSEWAY_DEVICE void add(uint64_t x, uint64_t w) {
    constexpr int kRowUnits = 64 * 2 / 16;  // of a row of 64 columns, in a descriptor's unit
#pragma unroll
    for (int i = 0; i < kWide; ++i) ptx::mma(wide[i], x, w + i * 128 * kRowUnits);
    if constexpr (kHalf > 0) ptx::mma(half, x, w + kWide * 128 * kRowUnits);
    if constexpr (kQuarter > 0) {
      ptx::mma(quarter, x, w + (kWide * 128 + kHalf * 64) * kRowUnits);
    }
  }
  CAUSEWAY_DEVICE void hold() {
#pragma unroll
    for (int i = 0; i < kWide; ++i) ptx::hold(wide[i]);
    if constexpr (kHalf > 0) ptx::hold(half);
    if constexpr (kQuarter > 0) ptx::hold(quarter);
  }
};

// One of the warpgroups.
template <int kBatch, int kRows>
struct ClusterWorker {
  using Ring = ClusterRing<kBatch, kRows>;
  const ClusterArgs& args;
  ClusterPlace<kBatch, kRows> place;
  ClusterShare share;
  int group, thread;  // of the warpgroups; of the group's 128
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE int lane() const { return thread % 32; }
  // Row of x of sums 0 and 1 of a block; 2 and 3 are 8 rows below.
  CAUSEWAY_DEVICE int row() const { return group * 64 + thread / 32 * 16 + lane() / 4; }

  CAUSEWAY_DEVICE void multiply(ClusterSums<kRows>& sums) {
    sums.clear();
    uint32_t previous = 0;
    for (int step = share.begin; step < share.end; ++step) {
      ptx::barrier_wait(place.full(cursor.stage), cursor.phase);
      const uint64_t x =
          ptx::tile_descriptor(place.inputs(cursor.stage) + group * 64 * kClusterStepK * 2);
      const uint64_t w = ptx::tile_descriptor(place.weights(cursor.stage));
      ptx::mma_fence();
#pragma unroll
      for (int k16 = 0; k16 < kClusterStepK / 16; ++k16) sums.add(x + k16 * 2, w + k16 * 2);
      ptx::mma_commit();
      ptx::mma_wait<1>();
      // The products of the step before have been read: its stage is free.
      if (step > share.begin && lane() == 0) ptx::barrier_arrive(place.empty(previous));
      previous = cursor.stage;
      cursor.advance();
    }
    ptx::mma_wait<0>();
    sums.hold();
    if (share.begin < share.end && lane() == 0) ptx::barrier_arrive(place.empty(previous));
  }

  // A whole tile's sums, from registers.
  CAUSEWAY_DEVICE void store(const ClusterSums<kRows>& sums, int tile) const {
    const OutputArgs& output = args.output;
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int m = row() + below * 8, c = lane() % 4 * 2;
      if (m >= output.m) continue;
      if (output.silu_mul) {
        // Rows of gate and up lie in turns of 8.
#pragma unroll
        for (int b = 0; b < kRows / 8; b += 2) {
          store_silu_mul(output, m, tile * (kRows / 2) + b * 4 + c, sums.pair(b, below),
                         sums.pair(b + 1, below));
        }
      } else {
#pragma unroll
        for (int b = 0; b < kRows / 8; ++b) {
          store_plain(output, m, tile * kRows + b * 8 + c, sums.pair(b, below));
        }
      }
    }
  }

  // Into shared memory, for the cluster. The ring has been read to its end.
  CAUSEWAY_DEVICE void hand_over(const ClusterSums<kRows>& sums, float* target) const {
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int m = row() + below * 8;
      if (m >= args.output.m) continue;
#pragma unroll
      for (int b = 0; b < kRows / 8; ++b) {
        *reinterpret_cast<float2*>(target + m * Ring::kPitch + b * 8 + lane() % 4 * 2) =
            sums.pair(b, below);
      }
    }
  }

  // The ranks' sums of columns (c, c + 1) of the tile for row m of x.
  CAUSEWAY_DEVICE float2 total(int m, int c, int ranks) const {
    const uint32_t at = place.memory + static_cast<uint32_t>(m * Ring::kPitch + c) * 4;
    float2 sum = {0.0f, 0.0f};
    for (int rank = 0; rank < ranks; ++rank) {
      const float2 part = ptx::load_of_rank(at, rank);
      sum.x += part.x;
      sum.y += part.y;
    }
    return sum;
  }

  // This rank's columns of the tile, added up over all ranks.
  CAUSEWAY_DEVICE void store_slice(int tile, int rank, int ranks) const {
    const OutputArgs& output = args.output;
    const int width = kRows / ranks, first = rank * width;  // columns of the tile
    const int pairs = output.silu_mul ? width / 4 : width / 2;
    for (int i = group * 128 + thread; i < output.m * pairs; i += 128 * Ring::kGroups) {
      const int m = i / pairs, c = i % pairs * 2;
      if (output.silu_mul) {
        const int gate = first + c / 8 * 16 + c % 8;
        store_silu_mul(output, m, (tile * kRows + first) / 2 + c, total(m, gate, ranks),
                       total(m, gate + 8, ranks));
      } else {
        store_plain(output, m, tile * kRows + first + c, total(m, first + c, ranks));
      }
    }
  }
};

template <int kBatch, int kRows>
__global__ void __launch_bounds__(ClusterRing<kBatch, kRows>::kThreads, 1)
    cluster_kernel(const __grid_constant__ CUtensorMap x_map,
                   const __grid_constant__ CUtensorMap w_map,
                   const __grid_constant__ ClusterArgs args) {
  using Ring = ClusterRing<kBatch, kRows>;
  extern __shared__ char shared[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const ClusterPlace<kBatch, kRows> place = {(base + 1023) & ~1023u, args.stages};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = static_cast<int>(ptx::cluster_rank());
  const int ranks = static_cast<int>(ptx::cluster_size());
  const ClusterShare share(args, rank, ranks);
  const bool feeds_weights = warp == 4 * Ring::kGroups && lane == 0;
  const bool feeds_inputs = warp == 4 * Ring::kGroups + 1 && lane == 0;
  ClusterFeeder<kBatch, kRows> feeder{
      args, feeds_weights ? &w_map : &x_map, place, share, share.first, share.begin};
  // A rank without columns has nothing to feed.
  if (share.begin == share.end) feeder.tile = share.tiles;

  // ---- weights are asked for before anything else ----------------------------------------------
  if (feeds_weights) {
    for (uint32_t stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), 4 * Ring::kGroups);
    }
    ptx::barrier_init_fence();
    feeder.start_weights();
    ptx::dependents_launch();
  }
  __syncthreads();
  ptx::dependency_wait();

  // ---- roles -----------------------------------------------------------------------------------
  if (feeds_weights) feeder.feed_weights();
  if (feeds_inputs) feeder.feed_inputs();
  ClusterWorker<kBatch, kRows> worker{args, place, share, warp / 4,
                                      static_cast<int>(threadIdx.x) % 128};
  const bool multiplies = warp < 4 * Ring::kGroups;
  // A cluster of several has one tile at most.
  for (int tile = share.first; multiplies && tile < share.tiles; tile += share.stride) {
    ClusterSums<kRows> sums;
    worker.multiply(sums);
    if (ranks == 1) {
      worker.store(sums, tile);
      continue;
    }
    // No warpgroup may still read stages that the sums will lie in.
    ptx::workers_sync(128 * Ring::kGroups);
    worker.hand_over(sums, reinterpret_cast<float*>(shared + (place.memory - base)));
  }
  if (ranks == 1) return;
  __syncwarp();
  ptx::cluster_sync();
  if (multiplies) worker.store_slice(share.first, rank, ranks);
  __syncwarp();
  ptx::cluster_sync();  // nobody leaves while others read its sums
}

}  // namespace causeway::kernels::gemm
