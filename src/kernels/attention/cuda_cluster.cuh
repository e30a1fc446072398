// What CTAs of a cluster need to hand each other data: words that arrive in another CTA's shared
// memory and are counted by its mbarrier. Thin functions over PTX of sm_90; addresses of shared
// memory are 32-bit shared-window addresses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/barrier.cuh"

namespace causeway::kernels::attention::cluster {

// All threads of all CTAs of the cluster, once each. What a thread wrote before is not published:
// only that it has come.
CAUSEWAY_DEVICE void arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
CAUSEWAY_DEVICE void wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// A barrier of one phase, complete once `bytes` have been sent to it. One thread, before arrive():
// the other CTAs may send behind wait().
CAUSEWAY_DEVICE void expect(uint32_t barrier, uint32_t bytes) {
  ptx::barrier_init(barrier, 1);
  ptx::barrier_init_fence();
  ptx::barrier_arrive_expect(barrier, bytes);
}

CAUSEWAY_DEVICE bool try_bytes(uint32_t barrier) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier)
      : "memory");
  return done != 0;
}

// Returns once all has come, and is visible. The others send without waiting for anything that is
// not in their own CTA or in front of the kernel, so that it does come.
//
// Reading the clock takes longer than most of these waits: the first tries go without it.
CAUSEWAY_DEVICE void wait_for_bytes(uint32_t barrier) {
#pragma unroll 1
  for (int tries = 0; tries < 64; ++tries) {
    if (try_bytes(barrier)) return;
  }
  ptx::wait_until([=] { return try_bytes(barrier); });
}

// 16 bytes to `target`, counted by `barrier`; both are addresses in the same CTA
// (ptx::cluster_address).
CAUSEWAY_DEVICE void send(uint32_t target, uint32_t barrier, const float4& value) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(target),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
}

}  // namespace causeway::kernels::attention::cluster
