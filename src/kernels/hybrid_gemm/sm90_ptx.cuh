// The few PTX instructions of sm_90a that HybridGEMM is made of, one thin function each.
// Addresses of shared memory are 32-bit shared-window addresses; "rank" is a CTA's place in its
// cluster. All functions are for device code of one CTA; who must call them is said per function.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace causeway::kernels::hybrid_gemm::ptx {

#define CAUSEWAY_DEVICE __device__ __forceinline__

// ---- mbarriers -------------------------------------------------------------------------------

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

// A wait that never ends is a bug of the protocol; builds that define
// CAUSEWAY_HYBRID_GEMM_SPIN_LIMIT, to look for one, turn it into a launch failure.
struct SpinGuard {
  CAUSEWAY_DEVICE void spin() {
#ifdef CAUSEWAY_HYBRID_GEMM_SPIN_LIMIT
    if (++spins_ > CAUSEWAY_HYBRID_GEMM_SPIN_LIMIT) __trap();
#endif
  }
#ifdef CAUSEWAY_HYBRID_GEMM_SPIN_LIMIT
  uint64_t spins_ = 0;
#endif
};

// Returns once the phase of `parity` is complete.
CAUSEWAY_DEVICE void barrier_wait(uint32_t barrier, uint32_t parity) {
  SpinGuard guard;
  while (!barrier_try_wait(barrier, parity)) guard.spin();
}

// ---- clusters and warpgroups -----------------------------------------------------------------

CAUSEWAY_DEVICE uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
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

template <int kRegisters>
CAUSEWAY_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
CAUSEWAY_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// One word of shared memory, for telling a warpgroup what one thread knows.
CAUSEWAY_DEVICE void word_store(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
CAUSEWAY_DEVICE uint32_t word_load(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// ---- copies ----------------------------------------------------------------------------------

CAUSEWAY_DEVICE void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Box at (column, row) of a 2-D tensor → shared memory; bytes are counted at `barrier`. One thread.
CAUSEWAY_DEVICE void load_box(uint32_t target, const CUtensorMap* map, int column, int row,
                              uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// The same into every CTA of `mask`, at the same offsets there.
CAUSEWAY_DEVICE void load_box_multicast(uint32_t target, const CUtensorMap* map, int column,
                                        int row, uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
      : "memory");
}

// `bytes` contiguous bytes (a multiple of 16) of global memory → shared memory. One thread.
CAUSEWAY_DEVICE void load_bytes(uint32_t target, const void* source, uint32_t bytes,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

CAUSEWAY_DEVICE void load_bytes_multicast(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1], %2, [%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "h"(mask)
      : "memory");
}

// Shared → global, in a bulk group of the calling thread. One thread.
CAUSEWAY_DEVICE void store_bytes(void* target, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target),
               "r"(source), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// The calling thread's stores are complete (visible to it), not only read out of shared memory.
CAUSEWAY_DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders what this thread has seen through ordinary accesses before what it asks of the copy
// engine.
CAUSEWAY_DEVICE void proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- flags in global memory ------------------------------------------------------------------

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
  SpinGuard guard;
  while (flag_load(flag) < at_least) {
    __nanosleep(64);
    guard.spin();
  }
}

// ---- matrix products -------------------------------------------------------------------------

// Descriptor of a K-major bf16 tile whose rows are 128 bytes, 128-byte swizzled; groups of 8 rows
// are 1,024 bytes apart. The tile is 1,024-byte aligned; +32 bytes of address step 16 in K.
CAUSEWAY_DEVICE uint64_t tile_descriptor(uint32_t address) {
  return (uint64_t{1} << 62) | (uint64_t{64} << 32) | (uint64_t{1} << 16) |
         ((address & 0x3FFFF) >> 4);
}

CAUSEWAY_DEVICE void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CAUSEWAY_DEVICE void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// At most `kPending` committed groups of this warpgroup are still running.
template <int kPending>
CAUSEWAY_DEVICE void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of the accumulators across asynchronous products.
CAUSEWAY_DEVICE void mma_hold(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d[64×128] += a[64×16] · b[128×16]ᵀ, one warpgroup. Thread t of the 128 holds, for n8 = 0 … 15,
//   d[4·n8 + {0,1}] = row 16·(t/32) + (t%32)/4,     columns 8·n8 + 2·(t%4) + {0,1}
//   d[4·n8 + {2,3}] = the same columns, 8 rows below.
CAUSEWAY_DEVICE void mma_64x128x16(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b));
}

}  // namespace causeway::kernels::hybrid_gemm::ptx
