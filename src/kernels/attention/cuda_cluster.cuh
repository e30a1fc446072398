// What CTAs of a cluster need to hand each other data: words that arrive in another CTA's shared
// memory and are counted by its mbarrier. Thin functions over PTX of sm_90; addresses of shared
// memory are 32-bit shared-window addresses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace causeway::kernels::attention::cluster {

// All threads of all CTAs of the cluster, once each. What a thread wrote before is not published:
// only that it has come.
__device__ __forceinline__ void arrive() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ __forceinline__ void wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// A barrier of one phase, complete once `bytes` have been sent to it. One thread, before arrive():
// the other CTAs may send behind wait().
__device__ __forceinline__ void expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns once all has come, and is visible. The others send without waiting for anything that is
// not in their own CTA or in front of the kernel, so that it does come.
__device__ __forceinline__ void wait_for_bytes(uint32_t barrier) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
  }
}

// What lies at this CTA's `address`, in the CTA of `rank`.
__device__ __forceinline__ uint32_t address_in(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// 16 bytes to `target`, counted by `barrier`; both are addresses in the same CTA (address_in).
__device__ __forceinline__ void send(uint32_t target, uint32_t barrier, const float4& value) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(target),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
}

}  // namespace causeway::kernels::attention::cluster
