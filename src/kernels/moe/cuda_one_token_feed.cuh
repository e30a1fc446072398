// The thread that asks for the stages of one token's experts.
#pragma once

#include "kernels/moe/cuda_one_token_place.cuh"
#include "kernels/ptx/barrier.cuh"

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

struct OneTokenFeeder {
  const OneTokenArgs& args;
  const OneTokenPlace& place;
  uint64_t policy;

  CAUSEWAY_DEVICE const OneTokenItem& item(int index) const {
    return place.of<OneTokenItem>(place.at.items)[index];
  }
  CAUSEWAY_DEVICE uint32_t target(int stage) const {
    return place.address + place.offset_of(stage);
  }

  // So many copies, of as many matrices from the `first` one on, `at` bytes from where they begin.
  struct Stage {
    int expert, first, copies;
    uint32_t bytes;
    int64_t at;
  };
  // Two features' rows of gate and of up.
  CAUSEWAY_DEVICE Stage gated(int expert, int pair) const {
    const uint32_t bytes = static_cast<uint32_t>(args.hidden) * 4;
    return {expert, 0, 2, bytes, int64_t{pair} * bytes};
  }
  CAUSEWAY_DEVICE Stage down(int expert, int group) const {
    const uint32_t bytes = static_cast<uint32_t>(args.intermediate) * (kDownRows * 2);
    return {expert, 2, 1, bytes, int64_t{group} * bytes};
  }

  CAUSEWAY_DEVICE void ask(bool real, int place_in_ring, const Stage& stage) const {
    const uint32_t full = place.full(place_in_ring);
    expect_if(real, full, stage.bytes * stage.copies);
    uint32_t to = target(place_in_ring);
#pragma unroll 1
    for (int w = stage.first; w < stage.first + stage.copies; ++w, to += stage.bytes) {
      const char* from = real ? item(stage.expert).weight[w] : nullptr;
      bulk_load_if(real, to, from + stage.at, stage.bytes, full, policy);
    }
  }

  // All stages, the first one without effect before the choice is known: for its instructions.
  CAUSEWAY_DEVICE void run() const {
    OneTokenStream at = one_token_stream(args);
    RingCursor slot{place.at.stages};
    int expert = 0, pair = at.pair;  // of the next stage of gate and up
    bool real = false;
#pragma unroll 1
    while (!at.done()) {
      ptx::barrier_wait(place.empty(slot.stage), slot.phase ^ 1);
#pragma unroll 1
      for (; pair >= at.tiles; pair -= at.tiles) ++expert;
      const bool is_down = at.is_down();
      const int group = static_cast<int>(blockIdx.x) + at.group * at.ctas;
      ask(real, slot.stage, is_down ? down(at.expert, group) : gated(expert, pair));
      if (real && !is_down) pair += at.ctas;
      if (real) {
        at.advance();
        slot.advance();
      } else {
        ptx::barrier_wait_covered(place.chosen(), 0);
        real = true;
      }
    }
  }
};

}  // namespace causeway::kernels::moe
