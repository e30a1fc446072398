// One token's experts, norm and router in front of them, in one kernel: gate and up of all experts,
// one behind the other, and down of an expert as soon as its active can be there, so that the
// memory idles nowhere between. One CTA an SM, all there at once; small, so that CTAs of the
// kernels around this one find room beside it.
//
//   [norm, scores | exchanged | choice]  gate and up 0 … 4, down 0, gate and up 5, down 1 …  → out
//
// The stages (cuda_one_token_stream.h says in which order) go through one ring of equal places: two
// features' rows of gate and of up, or eight rows of down, which are neighbours in memory. One
// thread asks for them in that order, a few large copies; stage s is multiplied by warp
// s % kWorkerWarps alone. Active goes from CTA to CTA in words that say their launch; a lane loads
// those of the columns it multiplies into its registers, asking for them before its stage's bytes
// are there. Down's sums stay by expert and are added by rising expert at the end.
//
// No wait is for ever, given that all CTAs are there at once: a stage waits for its place, which
// stages before it in the same CTA's order leave; for its warp, likewise; and a stage of down for
// its expert's gate and up in all CTAs. Let a stage of gate and up of expert e be of rank 2e, one
// of down of rank 2 (e + lag) + 1: in a CTA's order ranks never fall, and down waits in other CTAs
// for lower ranks only. So by induction over rank and order every stage is done.
//
// On the barriers every lane arrives for itself, for what it has read or written
// (cuda_small_batch.cuh says why).
#pragma once

#include "kernels/moe/cuda_one_token_choose.cuh"
#include "kernels/moe/cuda_one_token_feed.cuh"
#include "kernels/moe/cuda_one_token_multiply.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"

namespace causeway::kernels::moe {

constexpr int kOneTokenFeeder = kWorkerWarps, kOneTokenWeigher = kWorkerWarps + 1;  // warps
constexpr int kOneTokenThreads = 32 * (kWorkerWarps + 2);

CAUSEWAY_DEVICE void init_barriers(const OneTokenPlace& place) {
#pragma unroll 1
  for (int stage = 0; stage < place.at.stages; ++stage) {
    ptx::barrier_init(place.full(stage), 1);
    ptx::barrier_init(place.empty(stage), 32);
  }
  ptx::barrier_init(place.front_full(), 1);
  ptx::barrier_init(place.launch_read(), 32);
  ptx::barrier_init(place.chosen(), kWorkers);
  ptx::barrier_init(place.weighed(), 32);
  ptx::barrier_init_fence();
}

// No more registers than let kernels of the chain in beside it.
template <bool kLean>
__global__ void __maxnreg__(128) one_token_kernel(const __grid_constant__ OneTokenArgs given) {
  extern __shared__ __align__(128) char shared[];
  const OneTokenArgs args = kLean ? lean_args(given) : given;
  const OneTokenPlace place = {shared_place(shared), args.layout};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / 32), 0);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const ScorePlace score_place = {place, args.layout.ring,    args.layout.x,
                                  0,     args.layout.partial, place.front_full()};

  // ---- what does not depend on the kernel in front ---------------------------------------------
  if (warp == kOneTokenFeeder && lane == 0) {
    init_barriers(place);
    RouterScore::ask(args, score_place);
    ptx::dependents_launch();
  }
  OneTokenChoice choice{args, place, warp, lane};
  if (warp < kWorkerWarps) choice.take_table();
  __syncthreads();

  // ---- the warps that do not multiply ----------------------------------------------------------
  if (warp == kOneTokenWeigher) {
    ptx::barrier_wait_covered(place.chosen(), 0);
    weigh_choices(args, place, lane);
    ptx::barrier_arrive(place.weighed());
    return;
  }
  if (warp == kOneTokenFeeder) {
    ptx::dependency_wait();
    clear_next_counts(args, args.sync->launches[blockIdx.x], lane);
    ptx::barrier_arrive(place.launch_read());
    if (lane == 0) OneTokenFeeder{args, place, ptx::policy_stream()}.run();
    return;
  }

  // ---- the experts of each token --------------------------------------------------------------
  // The score is so short that fetching its instructions takes as long as it does: the weights on
  // their way have driven them out of all caches. So it goes once without effect while the kernel
  // in front still runs.
  RouterScore score{args, score_place, warp, lane};
  const auto token = score.of_all(0);
  uint32_t launch = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      ptx::dependency_wait();
      launch = args.sync->launches[blockIdx.x];
    }
    score.run(token, score.residual_of(token), launch + 1, pass == 1);
  }
  choice.choose(launch + 1);
  if (threadIdx.x == 0) {  // all have read it
    ptx::barrier_wait_covered(place.launch_read(), 0);
    args.sync->launches[blockIdx.x] = launch + 1;
  }

  // ---- their products --------------------------------------------------------------------------
  OneTokenWorker{args, place, warp, lane, launch + 1}.run();
}

}  // namespace causeway::kernels::moe
