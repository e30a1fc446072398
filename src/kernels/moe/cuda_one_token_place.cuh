// What the parts of the kernel for one token share: its arguments and its shared memory.
#pragma once

#include "kernels/moe/cuda_one_token_layout.h"
#include "kernels/moe/cuda_one_token_stream.h"
#include "kernels/moe/cuda_router_score.cuh"
#include "kernels/ptx/device.cuh"

namespace causeway::kernels::moe {

struct OneTokenArgs : ExpertsArgs {
  OneTokenLayout layout;
};

struct OneTokenPlace : RingPlace<OneTokenLayout> {
  CAUSEWAY_DEVICE uint32_t weighed() const { return full(2 * at.stages + 3); }
  CAUSEWAY_DEVICE uint32_t offset_of(int stage) const {
    return at.ring + static_cast<uint32_t>(stage) * at.stage_bytes;
  }
};

// The shape of Qwen3-30B-A3B, of any number of experts (fewer in tests). With sizes and places that
// are constants the code is a fifth shorter, and all code is fetched for every launch.
inline bool is_lean(const OneTokenArgs& args) {
  return args.hidden == 2048 && args.intermediate == 768 && args.k == 8 && args.normalise;
}
CAUSEWAY_DEVICE OneTokenArgs lean_args(const OneTokenArgs& given) {
  OneTokenArgs args = given;
  args.hidden = 2048;
  args.intermediate = 768;
  args.k = 8;
  args.normalise = true;
  args.layout = one_token_pieces(args.hidden, args.intermediate, args.k);
  args.layout.stages = given.layout.stages;
  args.layout.by_ctas = given.layout.by_ctas;
  args.layout.down_sums = given.layout.down_sums;
  return args;
}

CAUSEWAY_DEVICE OneTokenStream one_token_stream(const OneTokenArgs& args) {
  return OneTokenStream({args.hidden, args.intermediate, args.k, args.layout.lag,
                         static_cast<int>(gridDim.x), args.layout.by_ctas},
                        static_cast<int>(blockIdx.x));
}

}  // namespace causeway::kernels::moe
