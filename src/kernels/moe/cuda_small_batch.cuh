// The experts of few tokens in one kernel, bound by reading the chosen experts' weights once. One
// CTA an SM, all there at once:
//
//   [norm, router's scores | exchanged | choice]  gate and up → active  |handed over|  down → out
//
// The bracket is the front, or else a kernel of its own left its result in Groups. An expert's
// tokens are cut into items of up to eight. Gate and up: the tiles (item, 8 features) make one line
// that is dealt out in equal shares. Down: a CTA owns columns of out, 16 at a time, and walks all
// items, so that the sum over experts crosses no CTA.
//
// Active is written, counted, and copied into the ring as tokens are.
//
// Three warps feed a ring of stages [16 rows of weights | 8 of tokens] by bulk copies of rows, the
// weights' across the border between the phases: while active is still being handed over, the first
// weights of down are on their way. (A lane's copy takes 40 ns to ask for, whatever its size up to
// 1.5 KiB; and tokens that the multiplying warps read for themselves come too late, because the
// memory is busy.) Four warps multiply by tensor cores, each every fourth 64 columns of a stage,
// and add up through shared memory in the order of warps. On the ring's barriers every lane arrives
// for itself, for what it asks or has read: one lane for all, behind a __syncwarp, is right too,
// but racecheck does not see it. Likewise the choice is handed to the feeding warps: each thread
// that writes arrives, each that reads waits. (Behind a barrier of the whole CTA racecheck reported
// their reads of an item's addresses.)
//
// Sixteen bytes of a row, eight neighbouring k, are what a lane loads at once; a product takes k in
// any order, so the eight go to two products of the tensor core as they come, from weights and
// tokens alike. Even rows load the first of a block's two halves first, odd rows the second:
// rows lie a multiple of 128 bytes apart, and so they do not meet in a bank.
//
// The ring takes an SM's shared memory, so that the memory does not idle while active is counted.
#pragma once

#include "kernels/moe/cuda_small_batch_feed.cuh"
#include "kernels/moe/cuda_small_batch_front.cuh"
#include "kernels/moe/cuda_small_batch_multiply.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/launch.cuh"

namespace causeway::kernels::moe {

template <bool kFront>
__global__ void __launch_bounds__(kSmallBatchThreads, 2)
    small_batch_kernel(const __grid_constant__ SmallBatchArgs args) {
  extern __shared__ __align__(128) char shared[];
  const SmallBatchPlace place = {shared_place(shared), args.layout};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int part = warp - kWorkerWarps;  // of a feeding warp
  const ScorePlace score_place = {
      place, 0, args.layout.x, args.layout.x_pitch, args.layout.partial, place.front_full()};

  // ---- what does not depend on the kernel in front ---------------------------------------------
  if (part == 0 && lane == 0) {
#pragma unroll 1
    for (int stage = 0; stage < args.layout.stages; ++stage) {
      ptx::barrier_init(place.full(stage), kSmallBatchFeeders * kAskers);
      ptx::barrier_init(place.empty(stage), kWorkers);
    }
    ptx::barrier_init(place.front_full(), 1);
    ptx::barrier_init(place.launch_read(), kSmallBatchFeeders * 32);
    ptx::barrier_init(place.chosen(), kWorkers);
    ptx::barrier_init_fence();
    if (kFront) RouterScore::ask(args, score_place);
    ptx::dependents_launch();
  }
  if (kFront && part >= 0) SmallBatchFront::take_table(args, place, part, lane);
  __syncthreads();
  ptx::dependency_wait();
  const uint32_t launch = args.sync->launches[blockIdx.x];

  // ---- feeding warps ---------------------------------------------------------------------------
  if (part >= 0) {
    if (part == 0) clear_next_counts(args, launch, lane);
    ptx::barrier_arrive(place.launch_read());
    ptx::barrier_wait_covered(place.chosen(), 0);
    SmallBatchFeeder<kFront>{args, place, part, lane, launch % 2, {args.layout.stages}}.run();
    return;
  }

  // ---- multiplying warps: the experts of each token --------------------------------------------
  const SmallBatchFront front{args, place, warp, lane, launch + 1};
  if (kFront) {
    score_all(args, {args, score_place, warp, lane}, launch + 1);
    front.choose();
  } else {
    take_groups(args, place, static_cast<int>(threadIdx.x));
  }
  ptx::barrier_arrive(place.chosen());
  workers_sync();
  if (threadIdx.x == 0) {
    ptx::barrier_wait_covered(place.launch_read(), 0);
    args.sync->launches[blockIdx.x] = launch + 1;
  }

  // ---- and their products ----------------------------------------------------------------------
  if (kFront) front.weigh();
  SmallBatchWorker<kFront>{args, place, warp, lane, launch, {args.layout.stages}}.run();
}

}  // namespace causeway::kernels::moe
