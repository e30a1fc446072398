// Barriers: mbarriers of shared memory, those of a cluster and of a warpgroup, and flags in global
// memory.
#pragma once

#include <cstdint>

#include "kernels/ptx/device.cuh"
#include "kernels/ptx/wait.cuh"

namespace causeway::kernels::ptx {

// ---- mbarriers --------------------------------------------------------------------------------

CAUSEWAY_DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes initialised barriers visible to the copy engine and to the cluster.
CAUSEWAY_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

CAUSEWAY_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

CAUSEWAY_DEVICE void barrier_arrive(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals)
               : "memory");
}

// Arrives at the barrier that lies at the same offset in the CTA of `rank`. What it tells is only
// that asynchronous products have read their operands, so the default order is enough: with
// .release.cluster every arrival becomes a memory barrier, which halved the kernel's speed.
CAUSEWAY_DEVICE void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// At a barrier of another CTA of the cluster. It orders reads of this thread's that have ended;
// with `.release.cluster` it would be a fence to L2.
CAUSEWAY_DEVICE void barrier_arrive_cluster(uint32_t address, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(address), "r"(arrivals)
               : "memory");
}

CAUSEWAY_DEVICE void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

CAUSEWAY_DEVICE bool barrier_try_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Returns once the phase of `parity` is complete. The wait has an end (wait.cuh).
CAUSEWAY_DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
  wait_until([=] { return barrier_try_wait(barrier, parity); });
}
// The same for two barriers.
CAUSEWAY_DEVICE void barrier_wait_both(uint32_t one, uint32_t other, uint32_t parity) {
  wait_until([=] { return barrier_try_wait(one, parity) && barrier_try_wait(other, parity); });
}

// The same in three instructions and without an end of its own, for loops in which code and
// registers count. Only for what completes by copies that have been asked for, which end or fault,
// and by threads of this CTA that are in no wait, in one with an end, or in one like this; so that
// in a kernel that hangs some thread is in a wait with an end.
CAUSEWAY_DEVICE void barrier_wait_covered(uint32_t barrier, uint32_t parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

// ---- clusters and warpgroups ------------------------------------------------------------------

CAUSEWAY_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Where an address of shared memory lies in the CTA of `rank` of the cluster.
CAUSEWAY_DEVICE uint32_t cluster_address(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Relaxed: publishes nothing, and so waits for no write of the thread's to reach L2.
CAUSEWAY_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
CAUSEWAY_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
CAUSEWAY_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  cluster_wait();
}

// All 128 threads of a warpgroup; ids 1 … 15, id 0 is __syncthreads.
CAUSEWAY_DEVICE void warpgroup_sync(uint32_t id) {
  __syncwarp();
  asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory");
}

// ---- flags in global memory -------------------------------------------------------------------

CAUSEWAY_DEVICE uint32_t flag_load(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

CAUSEWAY_DEVICE void flag_store(uint32_t* flag, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

CAUSEWAY_DEVICE void flag_store_relaxed(uint32_t* flag, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

CAUSEWAY_DEVICE void flag_add(uint32_t* flag, uint32_t value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

CAUSEWAY_DEVICE void flag_wait(const uint32_t* flag, uint32_t at_least) {
  wait_until([=] {
    if (flag_load(flag) >= at_least) return true;
    __nanosleep(64);
    return false;
  });
}

}  // namespace causeway::kernels::ptx
