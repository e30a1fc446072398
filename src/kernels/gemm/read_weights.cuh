// What memory gives to a product that only reads its weights: kSplit's feeder without the product,
// for gemm_bench.cu. Steps of 128 rows × 64 columns come by the copy engine into a ring of as many
// stages as kSplit has at 128 rows of x, and are asked for as soon as one is free.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_split_ring.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::gemm {

struct ReadWeights {
  const __nv_bfloat16* w;  // [tiles × 128][k_steps × 64]
  std::int64_t tiles, k_steps;
  bool boxes;    // as a product must; else the bytes as they lie, 16 KiB a step
  int together;  // steps that are waited for, and then asked for
};

constexpr int kReadStages = static_cast<int>(SplitRing<128>::stages(CudaShare::kMore));
constexpr std::uint32_t kReadBytes = SplitRing<128>::kWeightBytes;
constexpr int kReadShared = kReadStages * static_cast<int>(kReadBytes) + 1024;

// One warp a CTA, one CTA an SM, each an equal share of the steps.
inline __global__ void __launch_bounds__(32)
    read_weights(const __grid_constant__ CUtensorMap map, const ReadWeights args) {
  extern __shared__ __align__(1024) char shared[];
  __shared__ __align__(8) std::uint64_t barriers[kReadStages];
  const auto memory = ptx::shared_address(shared);
  const std::uint32_t ring = (memory + 1023) / 1024 * 1024;  // of the swizzle
  const auto full = ptx::shared_address(barriers);
  if (!ptx::elect_one()) return;
  for (int i = 0; i < kReadStages; ++i) ptx::barrier_init(full + i * 8, 1);
  ptx::barrier_init_fence();

  const std::uint64_t policy = ptx::policy_stream();
  const std::int64_t all = args.tiles * args.k_steps;
  const std::int64_t begin = all * blockIdx.x / gridDim.x;
  const std::int64_t end = all * (blockIdx.x + 1) / gridDim.x;
  std::int64_t asked = begin;
  const auto ask = [&] {
    const int stage = static_cast<int>((asked - begin) % kReadStages);
    const std::uint32_t target = ring + stage * kReadBytes, barrier = full + stage * 8;
    ptx::barrier_arrive_expect(barrier, kReadBytes);
    if (args.boxes) {
      ptx::load_box_streamed(target, &map, static_cast<int>(asked % args.k_steps) * kSplitStepK,
                             static_cast<int>(asked / args.k_steps) * kSplitRows, barrier, policy);
    } else {
      ptx::load_bytes(target, args.w + asked * (kReadBytes / 2), kReadBytes, barrier, policy);
    }
    ++asked;
  };
  while (asked < end && asked - begin < kReadStages) ask();
  for (std::int64_t seen = begin; seen < end;) {
    const std::int64_t last = min(seen + args.together, end);
    for (; seen < last; ++seen) {
      const auto step = static_cast<std::uint32_t>(seen - begin);
      ptx::barrier_wait(full + step % kReadStages * 8, step / kReadStages & 1);
    }
    for (int i = 0; i < args.together && asked < end; ++i) ask();
  }
}

}  // namespace causeway::kernels::gemm
