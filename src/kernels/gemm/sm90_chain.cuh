// The kernel of chain_cuda.h: products in a row, one CTA an SM.
//
//   warp 8       feeds w, of all links one after the other: it never waits for a link to end
//   warp 9       feeds x; of a link, once every CTA has finished the link in front
//   warps 10,11  turn the sums of squares of a link in front into 1 / rms, for `normed` links
//   warps 0 … 7  two warpgroups that multiply
//
//   ring of stages [x kBatch×64 | w 256×64], 128-byte swizzled, filled by TMA
//
// A unit is a tile of 256 rows of w, or one of `splits` shares of it along k. With 128 rows of x a
// warpgroup multiplies 64 of them with all of the tile, with 64 rows half of the tile with all of
// them. Shares of a tile are added up in the order of shares: each CTA writes what others own to
// the workspace, waits for its fellows, and finishes the columns that it owns.
//
// `done` of a link counts warpgroups that have stored their part of it; a CTA that leaves counts in
// `exits`, and the last one zeroes all counters for the next launch.
#pragma once

#include "kernels/gemm/chain_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::gemm {

constexpr int kChainWorkers = 128 * kChainGroups;
constexpr int kChainThreads = kChainWorkers + 128;  // and a warpgroup whose warps feed them
constexpr int kChainNormThreads = 64;

template <int kBatch>
struct ChainRing {
  static constexpr uint32_t kInputBytes = kBatch * kChainStepK * 2;
  static constexpr uint32_t kWeightBytes = kChainTileRows * kChainStepK * 2;
  static constexpr uint32_t kStageBytes = kInputBytes + kWeightBytes;
  // Behind the stages: 1 / rms of the rows, for links by turns; a full and an empty barrier each;
  // a barrier of the factors. 1,024 bytes are for aligning the whole.
  static constexpr uint32_t kFactorBytes = 2 * kBatch * 4;
  static constexpr uint32_t kFixed = kFactorBytes + 16 + 1024;
  static constexpr uint32_t kStages = (227 * 1024 - kFixed) / (kStageBytes + 16);
  static constexpr uint32_t kSharedBytes = kStages * (kStageBytes + 16) + kFixed;
  // Accumulators of a thread, in blocks of 8 columns and 4 values; two blocks are a pair: gate and
  // up of silu_mul.
  static constexpr int kHalves = kBatch == 128 ? 2 : 1;
  static constexpr int kPairs = kHalves * 8;
};

struct ChainLinkArgs {
  CUtensorMap x, w;
  OutputArgs output;
  const __nv_bfloat16* gains;  // scales
  __nv_bfloat16* scaled;
  float* squares;             // scales: [slices][kBatch]
  const float* squares_from;  // normed: of the link in front that scales
  int slices_from;
  float inverse_size, epsilon;  // normed
  float4* partials;             // splits > 1: [units][groups][pairs · 2][128 threads]
  uint32_t* arrivals;           // splits > 1: [tiles][groups]
  uint32_t* done;
  int tiles, k_steps, splits;
};

struct ChainArgs {
  ChainLinkArgs links[kChainLinksMax];
  uint32_t* exits;
  int count;
};

// One of a link's units: steps [begin, end) of a tile.
struct ChainUnit {
  int index, tile, share, begin, end;

  CAUSEWAY_DEVICE ChainUnit(const ChainLinkArgs& link, int unit)
      : index(unit),
        tile(unit / link.splits),
        share(unit % link.splits),
        begin(share * link.k_steps / link.splits),
        end((share + 1) * link.k_steps / link.splits) {}
};

CAUSEWAY_DEVICE int units_of(const ChainLinkArgs& link) { return link.tiles * link.splits; }

// Returns when all of a link has been stored, and what it stored can be read.
CAUSEWAY_DEVICE void wait_done(const ChainLinkArgs& link) {
  const auto all = static_cast<uint32_t>(units_of(link) * kChainGroups);
  ptx::SpinGuard guard;
  while (ptx::flag_load(link.done) < all) guard.spin();
}

template <int kBatch>
struct ChainPlace {
  using Ring = ChainRing<kBatch>;
  uint32_t memory;  // 1,024-byte aligned

  CAUSEWAY_DEVICE uint32_t inputs(uint32_t stage) const {
    return memory + stage * Ring::kStageBytes;
  }
  CAUSEWAY_DEVICE uint32_t weights(uint32_t stage) const {
    return inputs(stage) + Ring::kInputBytes;
  }
  CAUSEWAY_DEVICE uint32_t factors() const { return memory + Ring::kStages * Ring::kStageBytes; }
  CAUSEWAY_DEVICE uint32_t full(uint32_t stage) const {
    return factors() + Ring::kFactorBytes + stage * 8;
  }
  CAUSEWAY_DEVICE uint32_t empty(uint32_t stage) const { return full(stage) + Ring::kStages * 8; }
  CAUSEWAY_DEVICE uint32_t ready() const { return full(2 * Ring::kStages); }
};

// ---- feeding -----------------------------------------------------------------------------------

template <int kBatch>
struct ChainFeeder {
  using Ring = ChainRing<kBatch>;
  const ChainArgs& args;
  ChainPlace<kBatch> place;
  hybrid_gemm::Cursor<Ring::kStages> cursor = {};

  // fn(link, unit, step) for all steps of this CTA, in order.
  template <typename Fn>
  CAUSEWAY_DEVICE void walk(Fn&& fn) {
    for (int i = 0; i < args.count; ++i) {
      const ChainLinkArgs& link = args.links[i];
      const int units = units_of(link);
      for (int u = static_cast<int>(blockIdx.x); u < units; u += static_cast<int>(gridDim.x)) {
        const ChainUnit unit(link, u);
        for (int step = unit.begin; step < unit.end; ++step) fn(i, unit, step);
      }
    }
  }

  CAUSEWAY_DEVICE void feed_weights() {
    const uint64_t policy = ptx::policy_stream();
    walk([&](int i, const ChainUnit& unit, int step) {
      const ChainLinkArgs& link = args.links[i];
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
      ptx::barrier_arrive_expect(full, Ring::kWeightBytes);
      if (link.output.silu_mul) {
        ptx::load_pair_streamed(target, &link.w, step * kChainStepK,
                                unit.tile * (kChainTileRows / 16), full, policy);
      } else {
        ptx::load_box_streamed(target, &link.w, step * kChainStepK, unit.tile * kChainTileRows,
                               full, policy);
      }
      cursor.advance();
    });
  }

  CAUSEWAY_DEVICE void feed_inputs() {
    int entered = 0;
    walk([&](int i, const ChainUnit&, int step) {
      if (i > 0 && i != entered) {
        wait_done(args.links[i - 1]);
        ptx::proxy_fence();  // what was stored is read by the copy engine
      }
      entered = i;
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      const uint32_t full = place.full(cursor.stage);
      ptx::barrier_arrive_expect(full, Ring::kInputBytes);
      ptx::load_box(place.inputs(cursor.stage), &args.links[i].x, step * kChainStepK, 0, full);
      cursor.advance();
    });
  }
};

// ---- factors -----------------------------------------------------------------------------------

// 64 threads: 1 / rms of every row, from the squares that the CTAs left. In the order of slices;
// groups of threads take contiguous slices of four rows each.
template <int kBatch>
CAUSEWAY_DEVICE void write_factors(const ChainLinkArgs& link, float4* shared, float4* parts,
                                   int thread) {
  constexpr int kQuads = kBatch / 4, kParties = kChainNormThreads / kQuads;
  const int quad = thread % kQuads, party = thread / kQuads;
  const int begin = party * link.slices_from / kParties;
  const int end = (party + 1) * link.slices_from / kParties;
  const auto* from = reinterpret_cast<const float4*>(link.squares_from) + quad;
  float4 sum = {0, 0, 0, 0};
  for (int slice = begin; slice < end; slice += 8) {
    float4 some[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      some[i] = slice + i < end ? __ldcg(from + (slice + i) * kQuads) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum.x += some[i].x;
      sum.y += some[i].y;
      sum.z += some[i].z;
      sum.w += some[i].w;
    }
  }
  parts[thread] = sum;
  asm volatile("bar.sync 3, 64;" ::: "memory");
  if (party != 0) return;
  for (int other = 1; other < kParties; ++other) {
    const float4 more = parts[other * kQuads + quad];
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
  }
  shared[quad] = make_float4(rsqrtf(sum.x * link.inverse_size + link.epsilon),
                             rsqrtf(sum.y * link.inverse_size + link.epsilon),
                             rsqrtf(sum.z * link.inverse_size + link.epsilon),
                             rsqrtf(sum.w * link.inverse_size + link.epsilon));
}

// ---- multiplying -------------------------------------------------------------------------------

// One warpgroup.
template <int kBatch>
struct ChainWorker {
  using Ring = ChainRing<kBatch>;
  static constexpr int kHalves = Ring::kHalves, kPairs = Ring::kPairs;
  const ChainArgs& args;
  ChainPlace<kBatch> place;
  const float* factors;  // shared [2][kBatch]
  int group, thread, lane;
  hybrid_gemm::Cursor<Ring::kStages> cursor = {};
  uint32_t normed = 0;  // links so far
  float sums[kHalves][64];

  // Row of x of this thread's values 0 and 1 of a block; values 2 and 3 are 8 rows below.
  CAUSEWAY_DEVICE int row() const {
    return (kBatch == 128 ? group * 64 : 0) + thread / 32 * 16 + lane / 4;
  }
  // Row of w, within a tile, of value 0 of the first block of a pair.
  CAUSEWAY_DEVICE int column(int pair) const {
    return (kBatch == 128 ? 0 : group * 128) + pair * 16 + lane % 4 * 2;
  }

  CAUSEWAY_DEVICE void multiply(int steps) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[half][i] = 0.0f;
    }
    uint32_t previous = 0;
    for (int step = 0; step < steps; ++step) {
      ptx::barrier_wait(place.full(cursor.stage), cursor.phase);
      const uint32_t rows = kBatch == 128 ? group * 8192 : 0;
      const uint32_t part = kBatch == 128 ? 0 : group * 16384;
      const uint64_t x = ptx::tile_descriptor(place.inputs(cursor.stage) + rows);
      const uint64_t w = ptx::tile_descriptor(place.weights(cursor.stage) + part);
      ptx::mma_fence();
#pragma unroll
      for (int k16 = 0; k16 < kChainStepK / 16; ++k16) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          ptx::mma(sums[half], x + k16 * 2, w + half * (16384 >> 4) + k16 * 2);
        }
      }
      ptx::mma_commit();
      ptx::mma_wait<1>();
      // The products of the step before have been read: its stage is free.
      if (step > 0 && lane == 0) ptx::barrier_arrive(place.empty(previous));
      previous = cursor.stage;
      cursor.advance();
    }
    ptx::mma_wait<0>();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) ptx::hold(sums[half]);
    if (lane == 0) ptx::barrier_arrive(place.empty(previous));
  }

  // ---- shares of a tile ------------------------------------------------------------------------

  CAUSEWAY_DEVICE static int owned_begin(const ChainLinkArgs& link, int share) {
    return share * kPairs / link.splits;
  }
  CAUSEWAY_DEVICE float4* partial(const ChainLinkArgs& link, int unit, int pair) const {
    return link.partials + ((unit * kChainGroups + group) * kPairs + pair) * 256 + thread;
  }
  // Does this warp hold rows of x that exist?
  CAUSEWAY_DEVICE bool has_rows(const ChainLinkArgs& link) const {
    return row() - lane / 4 < link.output.m;
  }

  CAUSEWAY_DEVICE void add_owned(const ChainLinkArgs& link, const ChainUnit& unit, int pair) {
    const int half = pair / 8, at = pair % 8 * 8;
    float total[8] = {};
    const int first = unit.index - unit.share;
    float4 parts[kChainSplitsMax][2];
#pragma unroll
    for (int s = 0; s < kChainSplitsMax; ++s) {
      if (s >= link.splits || s == unit.share) continue;
      const float4* theirs = partial(link, first + s, pair);
      parts[s][0] = __ldcg(theirs);
      parts[s][1] = __ldcg(theirs + 128);
    }
#pragma unroll
    for (int s = 0; s < kChainSplitsMax; ++s) {
      if (s >= link.splits) break;
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const float4 theirs = parts[s][b];
        const float mine[4] = {theirs.x, theirs.y, theirs.z, theirs.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          total[b * 4 + e] += s == unit.share ? sums[half][at + b * 4 + e] : mine[e];
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[half][at + e] = total[e];
  }

  // Afterwards this CTA's own columns hold the sums of all shares.
  CAUSEWAY_DEVICE void add_up(const ChainLinkArgs& link, const ChainUnit& unit) {
    const int begin = owned_begin(link, unit.share), end = owned_begin(link, unit.share + 1);
    if (has_rows(link)) {
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        if (pair >= begin && pair < end) continue;
        const float* four = sums[pair / 8] + pair % 8 * 8;
        float4* target = partial(link, unit.index, pair);
        __stcg(target, make_float4(four[0], four[1], four[2], four[3]));
        __stcg(target + 128, make_float4(four[4], four[5], four[6], four[7]));
      }
    }
    ptx::warpgroup_sync(1 + group);
    uint32_t* arrivals = link.arrivals + unit.tile * kChainGroups + group;
    const auto all = static_cast<uint32_t>(link.splits);
    if (thread == 0) {
      ptx::flag_exchange_add(arrivals, 1);
      ptx::SpinGuard guard;
      while (ptx::flag_load(arrivals) < all) guard.spin();
    }
    ptx::warpgroup_sync(1 + group);
    if (has_rows(link)) {
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        if (pair >= begin && pair < end) add_owned(link, unit, pair);
      }
    }
  }

  // The last of a tile's shares to leave zeroes its counter.
  CAUSEWAY_DEVICE void leave(const ChainLinkArgs& link, const ChainUnit& unit) {
    uint32_t* arrivals = link.arrivals + unit.tile * kChainGroups + group;
    const auto all = static_cast<uint32_t>(link.splits);
    if (ptx::flag_exchange_add(arrivals, 1) == 2 * all - 1) *arrivals = 0;
  }

  // ---- finished sums ---------------------------------------------------------------------------

  // Two columns of a row: out, out ⊙ gains; returns the sum of out's squares.
  CAUSEWAY_DEVICE float store_scaled(const ChainLinkArgs& link, int m, int column, float2 value) {
    const OutputArgs& output = link.output;
    if (column >= output.n) return 0.0f;
    const int64_t at = m * output.out_stride + column;
    value.x += bias_at(output, column, true);
    value.y += bias_at(output, column + 1, true);
    if (output.residual != nullptr) {
      // Past L1: a CTA of a link in front may have written it.
      const uint32_t pair = __ldcg(reinterpret_cast<const uint32_t*>(output.residual + at));
      value.x += to_float(pair, 0);
      value.y += to_float(pair, 1);
    }
    const uint32_t rounded = hybrid_gemm::pack(value.x, value.y);
    *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(output.out) + at) = rounded;
    const uint32_t gains = *reinterpret_cast<const uint32_t*>(link.gains + column);
    *reinterpret_cast<uint32_t*>(link.scaled + at) = ptx::multiply_pair(rounded, gains);
    const float low = to_float(rounded, 0), high = to_float(rounded, 1);
    return low * low + high * high;
  }

  CAUSEWAY_DEVICE float store_pair(const ChainLinkArgs& link, const ChainUnit& unit, int pair, int m,
                                   int below, float factor) {
    const float* block = sums[pair / 8] + pair % 8 * 8 + below * 2;
    const float2 low = make_float2(block[0] * factor, block[1] * factor);
    const float2 high = make_float2(block[4] * factor, block[5] * factor);
    const int within = column(pair);
    if (link.output.silu_mul) {
      // Rows of gate and up lie in turns of 8.
      const int at = unit.tile * (kChainTileRows / 2) + (within - lane % 4 * 2) / 2 + lane % 4 * 2;
      store_silu_mul(link.output, m, at, low, high);
      return 0.0f;
    }
    const int at = unit.tile * kChainTileRows + within;
    if (link.gains != nullptr) {
      return store_scaled(link, m, at, low) + store_scaled(link, m, at + 8, high);
    }
    store_plain(link.output, m, at, low);
    store_plain(link.output, m, at + 8, high);
    return 0.0f;
  }

  CAUSEWAY_DEVICE void store(const ChainLinkArgs& link, const ChainUnit& unit) {
    const int begin = owned_begin(link, unit.share), end = owned_begin(link, unit.share + 1);
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int m = row() + below * 8;
      const bool exists = m < link.output.m;
      const float factor =
          link.squares_from != nullptr ? factors[(normed & 1) * kBatch + m] : 1.0f;
      float squares = 0.0f;
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        if (pair < begin || pair >= end || !exists) continue;
        squares += store_pair(link, unit, pair, m, below, factor);
      }
      if (link.gains == nullptr) continue;
      squares += __shfl_xor_sync(0xFFFFFFFFu, squares, 1);
      squares += __shfl_xor_sync(0xFFFFFFFFu, squares, 2);
      const int slice = kBatch == 128 ? unit.index : unit.index * kChainGroups + group;
      if (lane % 4 == 0) __stcg(link.squares + slice * kBatch + m, squares);
    }
  }

  CAUSEWAY_DEVICE void work() {
    for (int i = 0; i < args.count; ++i) {
      const ChainLinkArgs& link = args.links[i];
      const bool factored = link.squares_from != nullptr;
      bool waited = false;
      const int units = units_of(link);
      for (int u = static_cast<int>(blockIdx.x); u < units; u += static_cast<int>(gridDim.x)) {
        const ChainUnit unit(link, u);
        multiply(unit.end - unit.begin);
        if (link.splits > 1) add_up(link, unit);
        if (factored && !waited) ptx::barrier_wait(place.ready(), normed & 1);
        waited = true;
        store(link, unit);
        ptx::warpgroup_sync(1 + group);
        if (thread != 0) continue;
        // Before `done`: the next link counts arrivals in the same place.
        if (link.splits > 1) leave(link, unit);
        ptx::proxy_fence();  // the next link's x is read by the copy engine
        ptx::flag_add(link.done, 1);
      }
      if (factored) ++normed;
    }
  }
};

template <int kBatch>
CAUSEWAY_DEVICE void feed_factors(const ChainArgs& args, const ChainPlace<kBatch>& place,
                                  float* factors, float4* parts, int thread) {
  uint32_t normed = 0;
  for (int i = 0; i < args.count; ++i) {
    const ChainLinkArgs& link = args.links[i];
    if (link.squares_from == nullptr) continue;
    wait_done(args.links[i - 1]);
    write_factors<kBatch>(link, reinterpret_cast<float4*>(factors + (normed & 1) * kBatch), parts,
                          thread);
    asm volatile("bar.sync 3, 64;" ::: "memory");
    if (thread == 0) ptx::barrier_arrive(place.ready());
    ++normed;
  }
}

template <int kBatch>
__global__ void __launch_bounds__(kChainThreads, 1)
    chain_kernel(const __grid_constant__ ChainArgs args) {
  using Ring = ChainRing<kBatch>;
  extern __shared__ char shared[];
  __shared__ float4 parts[kChainNormThreads];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const ChainPlace<kBatch> place = {(base + 1023) & ~1023u};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* factors = reinterpret_cast<float*>(shared + (place.factors() - base));

  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < Ring::kStages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), 4 * kChainGroups);
    }
    ptx::barrier_init(place.ready(), 1);
    ptx::barrier_init_fence();
  }
  __syncthreads();
  ptx::dependents_launch();

  // ---- roles: all but the feeder of weights wait for the kernel in front -----------------------
  if (warp >= 4 * kChainGroups) {
    ptx::registers_give<40>();
    ChainFeeder<kBatch> feeder{args, place};
    if (warp == 8) {
      if (lane == 0) feeder.feed_weights();
    } else if (warp == 9) {
      ptx::dependency_wait();
      if (lane == 0) feeder.feed_inputs();
    } else {
      ptx::dependency_wait();
      feed_factors<kBatch>(args, place, factors, parts, static_cast<int>(threadIdx.x) % 64);
    }
  } else {
    ptx::registers_take<232>();
    ptx::dependency_wait();
    const int thread = static_cast<int>(threadIdx.x) % 128;
    ChainWorker<kBatch>{args, place, factors, warp / 4, thread, lane}.work();
  }

  // ---- the last CTA to leave zeroes the counters ------------------------------------------------
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (ptx::flag_exchange_add(args.exits, 1) != gridDim.x - 1) return;
  for (int i = 0; i < args.count; ++i) *args.links[i].done = 0;
  *args.exits = 0;
}

}  // namespace causeway::kernels::gemm
