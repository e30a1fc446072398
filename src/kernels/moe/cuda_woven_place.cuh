// What the parts of the kernel for one token share: its arguments and its shared memory.
#pragma once

#include "kernels/moe/cuda_few_score.cuh"
#include "kernels/moe/cuda_woven_layout.h"
#include "kernels/moe/cuda_woven_stream.h"

namespace causeway::kernels::moe {

struct WovenArgs : ExpertsArgs {
  WovenLayout layout;
};

struct WovenPlace : RingPlace<WovenLayout> {
  CAUSEWAY_DEVICE uint32_t weighed() const { return full(2 * at.stages + 3); }
  CAUSEWAY_DEVICE uint32_t offset_of(int stage) const {
    return at.ring + static_cast<uint32_t>(stage) * at.stage_bytes;
  }
};

CAUSEWAY_DEVICE WovenStream woven_stream(const WovenArgs& args) {
  return WovenStream(
      {args.hidden, args.intermediate, args.k, args.layout.lag, static_cast<int>(gridDim.x)},
      static_cast<int>(blockIdx.x));
}

}  // namespace causeway::kernels::moe
