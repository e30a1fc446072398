// What a CTA of kSplit (sm90_split.cuh) is told, its share of the steps, and its shared memory.
#pragma once

#include <cuda.h>

#include "kernels/cuda_discard.cuh"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/ptx/device.cuh"

namespace causeway::kernels::gemm {

constexpr int kSplitGroups = 2;  // warpgroups that multiply
constexpr int kSplitThreads = 128 * kSplitGroups + 96;

template <int kBatch>
struct SplitRing {
  static constexpr uint32_t kWeightBytes = kSplitRows * kSplitStepK * 2;
  static constexpr uint32_t kInputBytes = kBatch * kSplitStepK * 2;
  static constexpr uint32_t kStageBytes = kWeightBytes + kInputBytes;
  static constexpr int kCtasPerSm = kBatch > 32 ? 1 : 2;
  // Stages, three barriers each, and two more. Above 32 rows of x all that leaves room
  // for a norm's CTA.
  static constexpr uint32_t shared_bytes(CudaShare share) {
    return kBatch > 32 ? 225 * 1024 : share == CudaShare::kMore ? kSharedMost : kSharedLess;
  }
  static constexpr uint32_t stages(CudaShare share) {
    return (shared_bytes(share) - 16) / (kStageBytes + 24);
  }
  static_assert(stages(CudaShare::kLess) >= 2);
};

struct SplitArgs {
  CUtensorMap out_map;  // [parts][m][n], where the copy engine stores
  OutputArgs output;
  float4* partials;  // [ctas][groups][kBatch/8][128 threads], of the CTA's first tile
  uint32_t* flags;   // [ctas], zero: whether they are there
  EvenShares steps;  // of all tiles
  int tiles;         // of a part
  int k_steps;       // of a tile
  uint32_t stages;
  DiscardLines discards[kDiscardsMax];  // CudaPlan::drops
};

// A CTA's share of the line of steps.
struct SplitShare {
  int begin, end;
  int k_steps;

  // `places`: of those that deal the steps out, CTAs or pairs of them, this one being `index`.
  CAUSEWAY_DEVICE SplitShare(const SplitArgs& args, unsigned index, unsigned places)
      : k_steps(args.k_steps) {
    const unsigned place = places - 1 - index;
    begin = args.steps.begin(place);
    end = args.steps.begin(place + 1);
  }
  // The share of a CTA of a pair that halves a tile's k: as if tiles had twice as many parts.
  CAUSEWAY_DEVICE SplitShare(const SplitArgs& args, uint32_t rank) : k_steps(args.k_steps) {
    int tile = static_cast<int>(blockIdx.x / 2), parts = 0;
    for (; tile >= args.tiles; tile -= args.tiles) parts += 2;
    begin = ((parts + static_cast<int>(rank)) * args.tiles + tile) * k_steps;
    end = begin + k_steps;
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
  // The barrier of a pair that shares x: the stage is empty in the other CTA.
  CAUSEWAY_DEVICE uint32_t ready(uint32_t stage) const { return full(2 * stages + 2 + stage); }
};

}  // namespace causeway::kernels::gemm
