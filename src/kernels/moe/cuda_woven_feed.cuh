// The thread that asks for the stages of one token's experts.
#pragma once

#include "kernels/moe/cuda_woven_place.cuh"

namespace causeway::kernels::moe {

// Without effect unless real, but fetched and issued.
CAUSEWAY_DEVICE void expect_if(bool real, uint32_t barrier, uint32_t bytes) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n"
      "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n}" ::"r"(barrier),
      "r"(bytes), "r"(static_cast<uint32_t>(real))
      : "memory");
}
CAUSEWAY_DEVICE void bulk_load_if(bool real, uint32_t target, const void* source, uint32_t bytes,
                                  uint32_t barrier, uint64_t policy) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %5, 0;\n"
      "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;\n}" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy), "r"(static_cast<uint32_t>(real))
      : "memory");
}

struct WovenFeeder {
  const WovenArgs& args;
  const WovenPlace& place;
  uint64_t policy;

  CAUSEWAY_DEVICE const WovenItem& item(int index) const {
    return place.of<WovenItem>(place.at.items)[index];
  }
  CAUSEWAY_DEVICE uint32_t target(int stage) const {
    return place.address + place.offset_of(stage);
  }

  // Two features' rows of gate and of up.
  CAUSEWAY_DEVICE void gated(bool real, int stage, int expert, int pair) const {
    const uint32_t full = place.full(stage), rows = static_cast<uint32_t>(args.hidden) * 4;
    expect_if(real, full, 2 * rows);
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      const char* from = real ? item(expert).weight[w] : nullptr;
      bulk_load_if(real, target(stage) + w * rows, from + int64_t{pair} * rows, rows, full, policy);
    }
  }

  CAUSEWAY_DEVICE void down(int stage, int expert, int group) const {
    const uint32_t full = place.full(stage);
    const uint32_t bytes = static_cast<uint32_t>(args.intermediate) * (kDownRows * 2);
    ptx::barrier_arrive_expect(full, bytes);
    bulk_load(target(stage), item(expert).weight[2] + int64_t{group} * bytes, bytes, full, policy);
  }

  // All stages, the first one without effect before the choice is known: for its instructions.
  CAUSEWAY_DEVICE void run() const {
    WovenStream at = woven_stream(args);
    FewCursor slot{place.at.stages};
    int expert = 0, pair = at.pair;  // of the next stage of gate and up
    bool real = false;
#pragma unroll 1
    while (!at.done()) {
      ptx::barrier_wait(place.empty(slot.stage), slot.phase ^ 1);
#pragma unroll 1
      for (; pair >= at.tiles; pair -= at.tiles) ++expert;
      if (real && at.is_down()) {
        down(slot.stage, at.expert, static_cast<int>(blockIdx.x) + at.group * at.ctas);
      } else {
        gated(real, slot.stage, expert, pair);
        if (real) pair += at.ctas;
      }
      if (real) {
        at.advance();
        slot.advance();
      } else {
        ptx::barrier_wait(place.chosen(), 0);
        real = true;
      }
    }
  }
};

}  // namespace causeway::kernels::moe
