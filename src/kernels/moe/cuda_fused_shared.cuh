// What the kernel for small batches (cuda_small_batch.cuh) and the one for one token
// (cuda_one_token.cuh) share: arguments, words that say which launch they are of, the ring's
// cursor.
#pragma once

#include "kernels/moe/cuda_divide.cuh"
#include "kernels/moe/cuda_parts.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::moe {

struct ExpertsArgs {
  FrontCuda front;
  Sync* sync;
  const void* const* tables[3];   // gate, up, down
  const __nv_bfloat16* residual;  // [tokens][hidden]
  __nv_bfloat16* out;             // [tokens][hidden]
  unsigned long long* experts_read;
  uint32_t* chosen;  // [experts] or null
  int hidden, intermediate, experts, k;
  bool normalise;
};

inline ExpertsArgs experts_args(const ParamsCuda& p, const FrontCuda* front,
                                const Scratch& scratch) {
  return {.front = front != nullptr ? *front : FrontCuda{},
          .sync = scratch.sync,
          .tables = {p.gate, p.up, p.down},
          .residual = static_cast<const __nv_bfloat16*>(p.residual),
          .out = static_cast<__nv_bfloat16*>(p.out),
          .experts_read = reinterpret_cast<unsigned long long*>(p.experts_read),
          .chosen = p.chosen,
          .hidden = static_cast<int>(p.shape.hidden),
          .intermediate = static_cast<int>(p.shape.intermediate),
          .experts = static_cast<int>(p.shape.experts),
          .k = static_cast<int>(p.shape.experts_per_token),
          .normalise = p.normalise_top_k};
}

// A CTA's shared memory, with types.
struct SharedPlace {
  char* memory;
  uint32_t address;

  template <typename T>
  CAUSEWAY_DEVICE T* of(uint32_t offset) const {
    return reinterpret_cast<T*>(memory + offset);
  }
};

// With a layout that says where the barriers lie: full and empty of every stage, then those that
// are used once.
template <typename Layout>
struct RingPlace : SharedPlace {
  const Layout& at;

  CAUSEWAY_DEVICE uint32_t full(int stage) const { return address + at.barriers + stage * 8; }
  CAUSEWAY_DEVICE uint32_t empty(int stage) const { return full(at.stages + stage); }
  CAUSEWAY_DEVICE uint32_t front_full() const { return full(2 * at.stages); }
  CAUSEWAY_DEVICE uint32_t launch_read() const { return full(2 * at.stages + 1); }
  CAUSEWAY_DEVICE uint32_t chosen() const { return full(2 * at.stages + 2); }
};

CAUSEWAY_DEVICE SharedPlace shared_place(char* memory) {
  return {memory, ptx::shared_address(memory)};
}

// ---- words that CTAs hand to each other --------------------------------------------------------

// The upper half says the launch that the lower half is of, so that no fence is needed and nothing
// has to be cleared.
CAUSEWAY_DEVICE unsigned long long tagged(uint32_t tag, uint32_t value) {
  return static_cast<unsigned long long>(tag) << 32 | value;
}
CAUSEWAY_DEVICE uint32_t value_of(unsigned long long word) { return static_cast<uint32_t>(word); }
CAUSEWAY_DEVICE uint32_t tag_of(unsigned long long word) {
  return static_cast<uint32_t>(word >> 32);
}

// One warp: the next launch's counts of active that is counted begin at nought.
CAUSEWAY_DEVICE void clear_next_counts(const ExpertsArgs& args, uint32_t launch, int lane) {
  const int ctas = static_cast<int>(gridDim.x);
#pragma unroll 1
  for (int i = static_cast<int>(blockIdx.x) + lane * ctas; i < kItemsMax; i += 32 * ctas) {
    args.sync->tiles_done[(launch + 1) % 2][i] = 0;
  }
}

// ---- in a CTA ----------------------------------------------------------------------------------

// The multiplying warps.
CAUSEWAY_DEVICE void workers_sync() {
  __syncwarp();
  asm volatile("bar.sync 1, %0;" ::"n"(kWorkers) : "memory");
}

// Place in a ring of so many stages.
struct RingCursor {
  int stages, stage = 0;
  uint32_t phase = 0;

  CAUSEWAY_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  CAUSEWAY_DEVICE void advance(int count) {
    stage += count;
    while (stage >= stages) {
      stage -= stages;
      phase ^= 1;
    }
  }
};

// x / (1 + e^-x). What divides may be as large as 2^128: beyond 2^64 it is made smaller and the
// quotient, which then is no smaller than 2^-123, likewise.
CAUSEWAY_DEVICE float silu(float x) {
  const float by = 1.0f + __expf(-x), scale = by > 0x1p64f ? 0x1p-64f : 1.0f;
  return divide(x, by * scale) * scale;
}

}  // namespace causeway::kernels::moe
