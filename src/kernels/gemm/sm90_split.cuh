// The product for a batch's rows of x: sumsᵀ [rows of w × rows of x] = w · xᵀ, w streamed once from
// HBM.
//
// w's tiles of 128 rows are cut into steps of 64 columns; all steps, tile after tile, make one line
// that is dealt out to the CTAs in equal shares ("stream-K"):
//
//   steps  |--- tile 0 ---|--- tile 1 ---|--- tile 2 ---| …
//   CTAs   |<--- 3 --->|<--- 2 --->|<--- 1 --->| …
//
// There are no more CTAs than tiles, so at most two share a tile. The one whose share begins with
// its later steps has it as its first tile, leaves its sums in memory and goes on; the other one,
// for which it is the last tile, adds them to its own long after. So nobody stops for an answer of
// L2, which comes behind all the weights on their way, and the result depends neither on timing nor
// on the rows of x. The wait has an end: what is waited for waits for nobody, there is at most one
// CTA an SM, and kernels behind this one get SMs only when all of its CTAs have one. The line is
// dealt out from the last CTA on, so that what is waited for has the lower index.
//
// One warp feeds w and one x into a ring of stages [w 128×64 | x kBatch×64] by TMA; two warpgroups
// multiply, 64 rows of w each; one thread tells the other CTA and hears from it. The ring takes a
// share of an SM's shared memory (CudaShare) up to 32 rows of x: the next kernel's CTAs fit beside,
// fill their rings with weights, and multiply when this one has ended.
#pragma once

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::gemm {

constexpr int kSplitGroups = 2;  // warpgroups that multiply
constexpr int kSplitThreads = 128 * kSplitGroups + 96;

template <int kBatch>
struct SplitRing {
  static constexpr uint32_t kWeightBytes = kSplitRows * kSplitStepK * 2;
  static constexpr uint32_t kInputBytes = kBatch * kSplitStepK * 2;
  static constexpr uint32_t kStageBytes = kWeightBytes + kInputBytes;
  static constexpr int kCtasPerSm = kBatch > 32 ? 1 : 2;
  // Stages, a full and an empty barrier each, and two more; 1,024 bytes are for aligning the whole.
  static constexpr uint32_t shared_bytes(CudaShare share) {
    return kBatch > 32 ? 226 * 1024 : share == CudaShare::kMore ? kSharedMost : kSharedLess;
  }
  static constexpr uint32_t stages(CudaShare share) {
    return (shared_bytes(share) - 1024 - 16) / (kStageBytes + 16);
  }
  static_assert(stages(CudaShare::kLess) >= 2);
};

struct SplitArgs {
  OutputArgs output;
  float4* partials;  // [ctas][groups][kBatch/8][128 threads], of the CTA's first tile
  uint32_t* flags;   // [ctas], zero: whether they are there
  EvenShares steps;  // of all tiles
  int k_steps;       // of a tile
  uint32_t stages;
};

// A CTA's share of the line of steps.
struct SplitShare {
  int begin, end;
  int k_steps;

  CAUSEWAY_DEVICE explicit SplitShare(const SplitArgs& args) : k_steps(args.k_steps) {
    const unsigned place = gridDim.x - 1 - blockIdx.x;
    begin = args.steps.begin(place);
    end = args.steps.begin(place + 1);
  }
  // Whether the first tile's earlier steps, and the last one's later steps, are another CTA's.
  CAUSEWAY_DEVICE bool leaves() const { return begin % k_steps != 0; }
  CAUSEWAY_DEVICE bool hears() const { return end % k_steps != 0; }
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
  CAUSEWAY_DEVICE uint32_t told() const { return full(2 * stages); }       // this CTA's sums
  CAUSEWAY_DEVICE uint32_t heard() const { return full(2 * stages + 1); }  // of the other one's
};

// ---- feeding -----------------------------------------------------------------------------------

// One thread feeds w, another one x.
template <int kBatch, Finish kFinish>
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
    if (gates<kFinish>(args.output)) {
      ptx::load_pair_streamed(target, map, column, at.tile * (kSplitRows / 16), full, policy);
    } else {
      ptx::load_box_streamed(target, map, column, at.tile * kSplitRows, full, policy);
    }
    at.advance(args.k_steps);
    cursor.advance();
  }

  // Weights do not depend on the kernel in front, so nothing here waits for it. The kernel behind
  // may come when the ring is full.
  CAUSEWAY_DEVICE void feed_weights() {
    const uint64_t policy = ptx::policy_stream();
    int room = min(count, static_cast<int>(place.stages));  // at least a step
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      load_weights(policy);
      if (--room == 0) ptx::dependents_launch();
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

// Lanes l and l ^ 4 hold neighbouring columns of out for the same two rows; now each holds both
// columns of one row: the lane of the even column of the first.
CAUSEWAY_DEVICE float2 neighbours(float first, float second, int lane) {
  const bool odd = lane / 4 % 2 != 0;
  const float other = __shfl_xor_sync(0xFFFFFFFFu, odd ? first : second, 4);
  return odd ? make_float2(other, second) : make_float2(first, other);
}

// ---- multiplying -------------------------------------------------------------------------------

// The one thread that tells the CTA which has a tile's earlier steps that this one's sums are
// there, and hears of those that this one's last tile lacks.
template <int kBatch>
CAUSEWAY_DEVICE void split_tell(const SplitArgs& args, const SplitShare& share,
                                const SplitPlace<kBatch>& place) {
  if (share.leaves()) {
    ptx::barrier_wait(place.told(), 0);
    ptx::flag_add(args.flags + blockIdx.x, 1);
  }
  if (share.hears()) {
    ptx::SpinGuard guard;
    uint32_t* flag = args.flags + blockIdx.x - 1;
    while (ptx::flag_load(flag) == 0) guard.spin();
    *flag = 0;
    ptx::barrier_arrive(place.heard());
  }
}

// One of the warpgroups.
template <int kBatch, Finish kFinish>
struct SplitWorker {
  using Ring = SplitRing<kBatch>;
  static constexpr int kQuads = kBatch / 8;  // float4s of sums a thread holds
  // Of those that are stored together; more are more code.
  static constexpr int kAtOnce = kFinish == Finish::kAny ? 1 : (kQuads < 4 ? kQuads : 4);
  static constexpr int kAhead = 7;  // steps in which what another CTA left is on its way
  const SplitArgs& args;
  const SplitShare& share;
  SplitPlace<kBatch> place;
  int group, thread, lane;
  RingCursor cursor = {place.stages};

  // `ask_step`: the step behind which what another CTA left is asked for.
  CAUSEWAY_DEVICE void multiply(float (&sums)[kBatch / 2], int steps, int ask_step,
                                float4 (&parts)[kQuads]) {
#pragma unroll
    for (int i = 0; i < kBatch / 2; ++i) sums[i] = 0.0f;
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
      // At once, not a step later: the memory is what is waited for, and a stage that is free is
      // asked for.
      ptx::mma_wait<0>();
      ptx::hold(sums);
      if (lane == 0) ptx::barrier_arrive(place.empty(cursor.stage));
      cursor.advance();
      if (step == ask_step) ask(parts);
    }
  }

  CAUSEWAY_DEVICE float4* partial(int cta) const {
    return args.partials + (cta * kSplitGroups + group) * (kQuads * 128) + thread;
  }
  CAUSEWAY_DEVICE void leave(const float (&sums)[kBatch / 2]) const {
    float4* mine = partial(static_cast<int>(blockIdx.x));
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      __stcg(mine + i * 128,
             make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]));
    }
    ptx::barrier_arrive(place.told());
  }
  CAUSEWAY_DEVICE void ask(float4 (&parts)[kQuads]) const {
    ptx::barrier_wait(place.heard(), 0);
    const float4* theirs = partial(static_cast<int>(blockIdx.x) - 1);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) parts[i] = __ldcg(theirs + i * 128);
  }
  static CAUSEWAY_DEVICE void add(float (&sums)[kBatch / 2], const float4 (&parts)[kQuads]) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      sums[i * 4] += parts[i].x;
      sums[i * 4 + 1] += parts[i].y;
      sums[i * 4 + 2] += parts[i].z;
      sums[i * 4 + 3] += parts[i].w;
    }
  }

  // ---- the end of a tile

  // Where this lane stores: a pair of columns of rows m, m + 8 … of out, and for a plain product
  // one 8 columns on.
  struct Target {
    int m, column;
    float bias[2];  // of the column that this lane's sums are of; silu_mul: of gate and of up
  };
  CAUSEWAY_DEVICE Target target(int tile) const {
    const OutputArgs& output = args.output;
    const int blocks = (tile * kSplitGroups + group) * 4 + thread / 32;  // of 16 rows of w
    const int own = blocks * (gates<kFinish>(output) ? 8 : 16) + lane / 4, second = own + 8;
    Target at = {lane % 4 * 2 + lane / 4 % 2, own - lane / 4 % 2, {}};
    at.bias[0] = bias_at<kFinish>(output, own, own < output.n);
    at.bias[1] = gates<kFinish>(output) ? bias_at<kFinish>(output, output.n + own, own < output.n)
                                        : bias_at<kFinish>(output, second, second < output.n);
    return at;
  }

  // Rows m of out, eight apart.
  CAUSEWAY_DEVICE void store_gated(const float* quad, int m, const Target& at) const {
    const float2 value = neighbours(silu(quad[0] + at.bias[0]) * (quad[2] + at.bias[1]),
                                    silu(quad[1] + at.bias[0]) * (quad[3] + at.bias[1]), lane);
    if (m < args.output.m) store_bf16<kFinish>(args.output, m, at.column, value, 0);
  }
  CAUSEWAY_DEVICE void store_two(const float* quad, int m, const Target& at, uint32_t residual,
                                 uint32_t residual_on) const {
    const float2 first = neighbours(quad[0] + at.bias[0], quad[1] + at.bias[0], lane);
    const float2 on = neighbours(quad[2] + at.bias[1], quad[3] + at.bias[1], lane);
    if (m >= args.output.m) return;
    store_sum<kFinish>(args.output, m, at.column, first, residual);
    store_sum<kFinish>(args.output, m, at.column + 8, on, residual_on);
  }

  // The first kAtOnce quads: together, because one after the other each takes as long as all.
  CAUSEWAY_DEVICE void store_some(const float (&sums)[kBatch / 2], int m, const Target& at) const {
    if (gates<kFinish>(args.output)) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) store_gated(sums + i * 4, m + i * 8, at);
      return;
    }
    uint32_t residual[kAtOnce] = {}, residual_on[kAtOnce] = {};
    ask_residual<kFinish>(residual, args.output, m, at.column);
    ask_residual<kFinish>(residual_on, args.output, m, at.column + 8);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      store_two(sums + i * 4, m + i * 8, at, residual[i], residual_on[i]);
    }
  }

  CAUSEWAY_DEVICE void store(float (&sums)[kBatch / 2], int tile) const {
    const Target at = target(tile);
#pragma unroll 1
    for (int quad = 0; quad < kQuads; quad += kAtOnce) {
      store_some(sums, at.m + quad * 8, at);
#pragma unroll
      for (int j = 0; j + 4 * kAtOnce < kBatch / 2; ++j) sums[j] = sums[j + 4 * kAtOnce];
    }
  }

  CAUSEWAY_DEVICE void work() {
#pragma unroll 1
    for (int step = share.begin; step < share.end;) {
      const int tile = step / share.k_steps, next = (tile + 1) * share.k_steps;
      const int steps = min(next, share.end) - step;
      const bool hears = next > share.end;
      float sums[kBatch / 2];
      float4 parts[kQuads] = {};
      multiply(sums, steps, hears ? max(steps - kAhead - 1, 0) : -1, parts);
      if (tile * share.k_steps < step) {
        leave(sums);
      } else {
        add(sums, parts);
        store(sums, tile);
      }
      step = next;
    }
  }
};

template <int kBatch, Finish kFinish>
__global__ void __launch_bounds__(kSplitThreads, SplitRing<kBatch>::kCtasPerSm)
    split_kernel(const __grid_constant__ CUtensorMap x_map,
                 const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ SplitArgs args) {
  extern __shared__ char shared[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const SplitPlace<kBatch> place = {(base + 1023) & ~1023u, args.stages};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const SplitShare share(args);
  const bool feeds_weights = warp == 4 * kSplitGroups, chosen = ptx::elect_one();
  const int first_tile = share.begin / args.k_steps;
  SplitFeeder<kBatch, kFinish> feeder{args,
                                      feeds_weights ? &w_map : &x_map,
                                      place,
                                      {first_tile, share.begin - first_tile * args.k_steps},
                                      share.end - share.begin};

  if (feeds_weights && chosen) {
#pragma unroll 1
    for (uint32_t stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), 4 * kSplitGroups);
    }
    ptx::barrier_init(place.told(), 128 * kSplitGroups);
    ptx::barrier_init(place.heard(), 1);
    ptx::barrier_init_fence();
  }
  __syncthreads();

  // ---- roles -----------------------------------------------------------------------------------
  if (feeds_weights) {
    if (chosen) feeder.feed_weights();
    return;
  }
  ptx::dependency_wait();
  if (warp == 4 * kSplitGroups + 1) {
    if (chosen) feeder.feed_inputs();
  } else if (warp < 4 * kSplitGroups) {
    const int group = warp / 4, thread = static_cast<int>(threadIdx.x) % 128;
    SplitWorker<kBatch, kFinish>{args, share, place, group, thread, lane}.work();
  } else if (warp == 4 * kSplitGroups + 2 && lane == 0) {
    split_tell<kBatch>(args, share, place);
  }
}

}  // namespace causeway::kernels::gemm
