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
// its later steps has it as its first tile, leaves its sums in memory and goes on; for the other
// one it is the last tile, long after, which adds them to its own: at the tile's end, asked for
// before, or above 32 rows of x, where registers are short, at its beginning. So no CTA stops for
// long for an answer of L2, which comes behind all the weights on their way, and the result depends
// neither on timing nor on the other rows of x. The wait has an end: what is waited for waits for
// no CTA itself, there is at most one CTA an SM, and kernels behind this one get SMs only when all
// of its CTAs have one. The line is dealt out from the last CTA on, so that what is waited for has
// the lower index: so CTAs need not all be there at once, only start in their order
// (docs/design/kernels.md, "Waits").
//
// Above 32 rows of x, L2 gives x as often as HBM gives w, and not fast enough. So pairs of CTAs
// (clusters) take their shares in step, of tiles of twice as many rows of w, half of them each, and
// each reads half of x for both (multicast).
//
// Or, of so few tiles that each has two SMs, pairs of CTAs share every tile: each has half of its
// k, and they exchange halves of the sums at the end.
//
// A product may be left in parts (CudaRequest::parts): a tile is then rows of w over a share of k,
// and there are as many more tiles.
//
// One warp feeds w and one x into a ring of stages [w 128×64 | x kBatch×64] by TMA; two warpgroups
// multiply, 64 rows of w each; one thread tells the other CTA and hears from it. The ring takes a
// share of an SM's shared memory (CudaShare) up to 32 rows of x: the next kernel's CTAs fit beside,
// fill their rings with weights, and multiply when this one has ended.
#pragma once

#include "kernels/cuda_discard.cuh"
#include "kernels/gemm/sm90_split_out.cuh"
#include "kernels/gemm/sm90_split_ring.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ring_cursor.cuh"

namespace causeway::kernels::gemm {

constexpr uint16_t kBothCtas = 3;  // of a cluster of two

// ---- feeding -----------------------------------------------------------------------------------

// One thread feeds w, another one x.
template <int kBatch, Finish kFinish, CudaPairs kPairs>
struct SplitFeeder {
  using Ring = SplitRing<kBatch>;
  const SplitArgs& args;
  const CUtensorMap* map;
  SplitPlace<kBatch> place;
  FeedStep at;
  int count;       // steps left
  uint32_t rank;   // in the pair
  int passed = 0;  // steps of a row that are other parts', in front of this one's
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE int column() {
    for (; at.tile >= args.tiles; at.tile -= args.tiles) passed += args.k_steps;
    return (passed + at.step) * kSplitStepK;
  }

  // The tile's number among tiles of kSplitRows rows of w.
  CAUSEWAY_DEVICE int tile() const {
    return kPairs == CudaPairs::kInputs ? at.tile * 2 + static_cast<int>(rank) : at.tile;
  }

  CAUSEWAY_DEVICE void load_weights(uint64_t policy) {
    const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
    const int column = this->column();
    ptx::barrier_arrive_expect(full, Ring::kWeightBytes);
    if (gates<kFinish>(args.output)) {
      ptx::load_pair_streamed(target, map, column, tile() * (kSplitRows / 16), full, policy);
    } else {
      ptx::load_box_streamed(target, map, column, tile() * kSplitRows, full, policy);
    }
    at.advance(args.k_steps);
    cursor.advance();
  }

  // Steps of the ring's first round, which do not wait for a free stage.
  CAUSEWAY_DEVICE int first_round() const {
    return min(count, static_cast<int>(place.stages));  // at least a step
  }

  // The next `steps`. Weights do not depend on the kernel in front, so nothing here waits for it.
  // The kernel behind may come behind `room` of them, when the ring is full.
  CAUSEWAY_DEVICE void feed_weights(int steps, int room) {
    const uint64_t policy = ptx::policy_stream();
#pragma unroll 1
    for (; steps > 0; --steps) {
      ptx::barrier_wait_covered(place.empty(cursor.stage), cursor.phase ^ 1);
      load_weights(policy);
      if (--room == 0 && kPairs != CudaPairs::kHalves) ptx::dependents_launch();
    }
  }

  CAUSEWAY_DEVICE void feed_inputs() {
#pragma unroll 1
    for (; count > 0; --count) {
      const uint32_t full = place.full(cursor.stage), empty = place.empty(cursor.stage);
      if constexpr (kPairs == CudaPairs::kInputs) {
        // Half of the rows of x, for both CTAs, when the stage is empty in both.
        ptx::barrier_wait_both(empty, place.ready(cursor.stage), cursor.phase ^ 1);
        ptx::barrier_arrive_expect(full, Ring::kInputBytes);
        ptx::load_box_multicast(place.inputs(cursor.stage) + rank * (Ring::kInputBytes / 2), map,
                                column(), static_cast<int>(rank) * (kBatch / 2), full, kBothCtas);
      } else {
        ptx::barrier_wait(empty, cursor.phase ^ 1);
        ptx::barrier_arrive_expect(full, Ring::kInputBytes);
        ptx::load_box(place.inputs(cursor.stage), map, column(), 0, full);
      }
      at.advance(args.k_steps);
      cursor.advance();
    }
  }
};

// ---- multiplying -------------------------------------------------------------------------------

// The CTA that leaves what this one's last tile lacks.
template <CudaPairs kPairs>
CAUSEWAY_DEVICE int split_neighbour() {
  return static_cast<int>(blockIdx.x) - (kPairs == CudaPairs::kInputs ? 2 : 1);
}

// The one thread that tells the CTA which has a tile's earlier steps that this one's sums are
// there, and hears of those that this one's last tile lacks.
template <int kBatch, CudaPairs kPairs>
CAUSEWAY_DEVICE void split_tell(const SplitArgs& args, const SplitShare& share,
                                const SplitPlace<kBatch>& place) {
  if (share.leaves()) {
    ptx::barrier_wait_covered(place.told(), 0);
    ptx::flag_add(args.flags + blockIdx.x, 1);
  }
  if (share.hears()) {
    uint32_t* flag = args.flags + split_neighbour<kPairs>();
    ptx::wait_until([=] { return ptx::flag_load(flag) != 0; });
    *flag = 0;
    ptx::barrier_arrive(place.heard());
  }
}

// What a warpgroup does with a stage.
template <int kBatch, CudaPairs kPairs>
struct SplitSteps {
  using Ring = SplitRing<kBatch>;
  SplitPlace<kBatch> place;
  SplitThread who;
  SplitOther<kPairs> other = {};
  RingCursor cursor = {place.stages};

  // `keep`: the stage is not given back.
  CAUSEWAY_DEVICE void multiply(float (&sums)[kBatch / 2], bool keep) {
    ptx::barrier_wait_covered(place.full(cursor.stage), cursor.phase);
    const uint64_t w = ptx::tile_descriptor(place.weights(cursor.stage) +
                                            who.group * (Ring::kWeightBytes / kSplitGroups));
    const uint64_t x = ptx::tile_descriptor(place.inputs(cursor.stage));
    ptx::mma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kSplitStepK / 16; ++k16) ptx::mma(sums, w + k16 * 2, x + k16 * 2);
    ptx::mma_commit();
    // At once, not a step later: the memory is what is waited for, and a stage that is free is
    // asked for.
    ptx::mma_wait<0>();
    ptx::hold(sums);
    if (who.lane == 0 && !keep) {
      ptx::barrier_arrive(place.empty(cursor.stage));
      other.tell(place.ready(cursor.stage), 1);
    }
    other.pass();
    cursor.advance();
  }
};

// One of the warpgroups.
template <int kBatch, Finish kFinish, CudaPairs kPairs>
struct SplitWorker {
  static constexpr int kQuads = kBatch / 8;  // float4s of sums a thread holds
  static constexpr int kAhead = 7;           // steps in which what another CTA left is on its way
  // Many rows of x leave no registers for that: a tile begins with what another CTA left.
  static constexpr bool kBegins = kBatch > 32;
  const SplitArgs& args;
  const SplitShare& share;
  SplitPlace<kBatch> place;
  SplitThread who;
  typename SplitEnd<kBatch, kFinish>::Type out;
  SplitSteps<kBatch, kPairs> steps = {place, who, SplitOther<kPairs>::of(share, place.stages)};

  CAUSEWAY_DEVICE float4* partial(int cta) const {
    return args.partials + (cta * kSplitGroups + who.group) * (kQuads * 128) + who.thread;
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
    ptx::barrier_wait_covered(place.heard(), 0);
    const float4* theirs = partial(split_neighbour<kPairs>());
#pragma unroll
    for (int i = 0; i < kQuads; ++i) parts[i] = __ldcg(theirs + i * 128);
  }
  // What was asked for is discarded behind its use, so that it has come.
  CAUSEWAY_DEVICE void drop() const {
    __syncwarp();
    if (who.lane % 8 != 0) return;
    const float4* theirs = partial(split_neighbour<kPairs>());
#pragma unroll 1
    for (int i = 0; i < kQuads; ++i) discard_line(theirs + i * 128);
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

  CAUSEWAY_DEVICE void put(float (&sums)[kBatch / 2], int tile) {
    int part = 0;
    for (; tile >= args.tiles; tile -= args.tiles) ++part;
    if (kPairs == CudaPairs::kInputs) tile = tile * 2 + static_cast<int>(blockIdx.x % 2);
    out.put(sums, tile, part, steps.cursor.stage);
  }

  // `kept`: the step from which on stages are not given back.
  CAUSEWAY_DEVICE void sum_up(float (&sums)[kBatch / 2], int count, int kept, bool hears) {
    float4 parts[kQuads] = {};
    const int ask_step = hears && !kBegins ? max(count - kAhead - 1, 0) : -1;
    if constexpr (kBegins) {
      if (hears) ask(parts);
    }
#pragma unroll
    for (int i = 0; i < kBatch / 2; ++i) sums[i] = 0.0f;
    if constexpr (kBegins) {
      add(sums, parts);
      if (hears) drop();
    }
#pragma unroll 1
    for (int step = 0; step < count; ++step) {
      steps.multiply(sums, step >= kept);
      if (step == 0) out.give_back(steps.other);
      if (step == ask_step) ask(parts);
    }
    if constexpr (!kBegins) {
      add(sums, parts);
      if (hears) drop();
    }
  }

  CAUSEWAY_DEVICE void work() {
#pragma unroll 1
    for (int step = share.begin; step < share.end;) {
      const int tile = step / share.k_steps, next = (tile + 1) * share.k_steps;
      const int count = min(next, share.end) - step;
      const bool leaves = tile * share.k_steps < step;
      float sums[kBatch / 2];
      // Behind the last step no stage is waited for, kept or not.
      sum_up(sums, count, leaves ? count : count - out.kStages, next > share.end);
      if (leaves) {
        leave(sums);
      } else {
        put(sums, tile);
      }
      step = next;
    }
    out.end();
  }
};

// One of the warpgroups of a CTA of kHalves: half of the tile's k, for all rows of x, then all of
// it for half of them; the other half's sums go to the other CTA, through its shared memory.
template <int kBatch, Finish kFinish>
struct SplitHalvesWorker {
  static constexpr int kHalf = kBatch / 2;  // rows of out
  const SplitArgs& args;
  const SplitShare& share;
  SplitPlace<kBatch> place;
  SplitThread who;
  uint32_t rank;
  SplitBoxes<kBatch, kFinish, kHalf> out;
  SplitSteps<kBatch, CudaPairs::kHalves> steps = {place, who};

  // This warpgroup's halves of the first stages' weights, when they have been read.
  CAUSEWAY_DEVICE uint32_t landing(int quad) const {
    constexpr int kBytes = SplitRing<kBatch>::kWeightBytes / kSplitGroups;
    const int at = (quad * 128 + who.thread) * 16;
    return place.weights(at / kBytes) + who.group * kBytes + at % kBytes;
  }

  CAUSEWAY_DEVICE void exchange(const float (&sums)[kBatch / 2], float (&kept)[kHalf / 2]) const {
    // The other CTA has read all stages. Relaxed: reads that have ended need no fence.
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
    const uint32_t other = ptx::cluster_address(landing(0), rank ^ 1) - landing(0);
#pragma unroll
    for (int i = 0; i < kHalf / 8; ++i) {
      float gone[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float low = sums[i * 4 + e], high = sums[kHalf / 2 + i * 4 + e];
        gone[e] = rank == 0 ? high : low;
        kept[i * 4 + e] = rank == 0 ? low : high;
      }
      ptx::store_cluster(other + landing(i), make_float4(gone[0], gone[1], gone[2], gone[3]));
    }
    ptx::cluster_sync();
#pragma unroll
    for (int i = 0; i < kHalf / 8; ++i) {
      const float4 came = ptx::load_floats(landing(i));
      kept[i * 4] += came.x;
      kept[i * 4 + 1] += came.y;
      kept[i * 4 + 2] += came.z;
      kept[i * 4 + 3] += came.w;
    }
  }

  CAUSEWAY_DEVICE void work() {
    float sums[kBatch / 2], kept[kHalf / 2];
#pragma unroll
    for (int i = 0; i < kBatch / 2; ++i) sums[i] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < share.k_steps; ++step) steps.multiply(sums, false);
    exchange(sums, kept);
    int tile = static_cast<int>(blockIdx.x / 2);
    int part = 0;
    for (; tile >= args.tiles; tile -= args.tiles) ++part;
    out.put(kept, tile, part, steps.cursor.stage, static_cast<int>(rank) * kHalf);
    // Not before: a norm's CTAs gather on the SMs that end first, attention's lie there in pairs.
    ptx::dependents_launch();
    out.end();
  }
};

template <int kBatch, Finish kFinish, CudaPairs kPairs>
__global__ void __launch_bounds__(kSplitThreads, SplitRing<kBatch>::kCtasPerSm)
    split_kernel(const __grid_constant__ CUtensorMap x_map,
                 const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ SplitArgs args) {
  extern __shared__ __align__(1024) char shared[];
  const SplitPlace<kBatch> place = {ptx::shared_address(shared), args.stages};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr bool kHalves = kPairs == CudaPairs::kHalves, kInputs = kPairs == CudaPairs::kInputs;
  const uint32_t rank = kPairs == CudaPairs::kNone ? 0 : ptx::cluster_rank();
  constexpr unsigned kTogether = kInputs ? 2 : 1;
  const SplitShare share = kHalves
                               ? SplitShare(args, rank)
                               : SplitShare(args, blockIdx.x / kTogether, gridDim.x / kTogether);
  const bool feeds_weights = warp == 4 * kSplitGroups, chosen = ptx::elect_one();
  const int first_tile = share.begin / args.k_steps;
  SplitFeeder<kBatch, kFinish, kPairs> feeder{args,
                                              feeds_weights ? &w_map : &x_map,
                                              place,
                                              {first_tile, share.begin - first_tile * args.k_steps},
                                              share.end - share.begin,
                                              rank};

  if (feeds_weights && chosen) {
#pragma unroll 1
    for (uint32_t stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), 4 * kSplitGroups);
      if (kInputs) ptx::barrier_init(place.ready(stage), 4 * kSplitGroups);
    }
    ptx::barrier_init(place.told(), 128 * kSplitGroups);
    ptx::barrier_init(place.heard(), 1);
    ptx::barrier_init_fence();
  }
  __syncthreads();
  if (kInputs) ptx::cluster_arrive_relaxed();

  // ---- roles -----------------------------------------------------------------------------------
  if (feeds_weights) {
    const int first = feeder.first_round(), rounds = kInputs ? 2 : 1;
    int steps = kInputs ? first : feeder.count, room = first;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      if (chosen) feeder.feed_weights(steps, room);
      __syncwarp();
      // Before this warp waits for what others do behind the pair's barrier: where the barrier is
      // one of the CTA (a launch without clusters, perhaps a tool), they wait there for this warp.
      if (kInputs && round == 0) ptx::cluster_wait();
      steps = feeder.count - first;
      room = 0;
    }
    return;
  }
  if (kInputs) ptx::cluster_wait();  // the other CTA's barriers are there
  ptx::dependency_wait();
  if (warp == 4 * kSplitGroups + 1) {
    if (chosen) feeder.feed_inputs();
  } else if (warp < 4 * kSplitGroups) {
    const SplitThread who = {warp / 4, static_cast<int>(threadIdx.x) % 128, lane};
    if constexpr (kHalves) {
      SplitHalvesWorker<kBatch, kFinish>{args, share, place, who, rank, {args, place, who}}.work();
    } else {
      SplitWorker<kBatch, kFinish, kPairs>{args, share, place, who, {args, place, who}}.work();
    }
  } else if (!kHalves && warp == 4 * kSplitGroups + 2) {
    if constexpr (kFinish == Finish::kGated && kInputs) {  // CudaPlan::drops
#pragma unroll 1
      for (const DiscardLines& lines : args.discards) {
        discard(lines, blockIdx.x * 32 + lane, gridDim.x * 32);
      }
    }
    if (lane == 0) split_tell<kBatch, kPairs>(args, share, place);
  }
}

}  // namespace causeway::kernels::gemm
