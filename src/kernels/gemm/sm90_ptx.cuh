// PTX of sm_90a that the skinny product needs beyond kernels/hybrid_gemm/sm90_ptx.cuh, one thin
// function each.
#pragma once

#include "kernels/hybrid_gemm/sm90_ptx.cuh"

namespace causeway::kernels::gemm::ptx {

using hybrid_gemm::ptx::barrier_arrive;
using hybrid_gemm::ptx::barrier_arrive_expect;
using hybrid_gemm::ptx::barrier_init;
using hybrid_gemm::ptx::barrier_init_fence;
using hybrid_gemm::ptx::barrier_wait;
using hybrid_gemm::ptx::cluster_arrive_relaxed;
using hybrid_gemm::ptx::cluster_rank;
using hybrid_gemm::ptx::cluster_sync;
using hybrid_gemm::ptx::cluster_wait;
using hybrid_gemm::ptx::flag_add;
using hybrid_gemm::ptx::flag_load;
using hybrid_gemm::ptx::load_box;
using hybrid_gemm::ptx::load_bytes;
using hybrid_gemm::ptx::mma_64x128x16;
using hybrid_gemm::ptx::mma_commit;
using hybrid_gemm::ptx::mma_fence;
using hybrid_gemm::ptx::mma_wait;
using hybrid_gemm::ptx::proxy_fence;
using hybrid_gemm::ptx::SpinGuard;
using hybrid_gemm::ptx::tile_descriptor;
using hybrid_gemm::ptx::warpgroup_sync;

// ---- programmatic dependent launch -----------------------------------------------------------

// Everything that the kernels in front wrote is visible from here on, and what they read may be
// overwritten.
CAUSEWAY_DEVICE void dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The next kernel may be placed on the SMs once every CTA of this one has said so (or ended).
CAUSEWAY_DEVICE void dependents_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// True in one lane of the warp, all of which call this. Chosen so, the compiler knows that it is
// one, and issues its copies without a loop over lanes.
CAUSEWAY_DEVICE bool elect_one() {
  uint32_t chosen;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xFFFFFFFF;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(chosen));
  return chosen != 0;
}

// ---- copies ----------------------------------------------------------------------------------

// Cache policy for bytes that are read once: they leave L2 first.
CAUSEWAY_DEVICE uint64_t policy_stream() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Bytes as they lie, by such a policy.
CAUSEWAY_DEVICE void load_bytes(uint32_t target, const void* source, uint32_t bytes,
                                uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

CAUSEWAY_DEVICE void load_box_streamed(uint32_t target, const CUtensorMap* map, int column, int row,
                                       uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
}

// The box of a 4-D tensor at (column, 0, 0, group).
CAUSEWAY_DEVICE void load_pair_streamed(uint32_t target, const CUtensorMap* map, int column,
                                        int group, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(column), "r"(0), "r"(group), "r"(barrier), "l"(policy)
      : "memory");
}

// The box of a tensor of slabs [slab][row][64] at (row, slab).
CAUSEWAY_DEVICE void load_slabs(uint32_t target, const CUtensorMap* map, int row, int slab,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(target),
      "l"(map), "r"(0), "r"(row), "r"(slab), "r"(barrier)
      : "memory");
}
CAUSEWAY_DEVICE void load_slabs_streamed(uint32_t target, const CUtensorMap* map, int row, int slab,
                                         uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(0), "r"(row), "r"(slab), "r"(barrier), "l"(policy)
      : "memory");
}

// The box of a 5-D tensor [slab][group][2][8][64] at (group, slab).
CAUSEWAY_DEVICE void load_pair_slabs(uint32_t target, const CUtensorMap* map, int group, int slab,
                                     uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %2, %2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(0), "r"(group), "r"(slab), "r"(barrier), "l"(policy)
      : "memory");
}

// The box at (column, row) into this CTA's and the other one's memory of a cluster of two, and the
// bytes counted at the barriers of both: the same addresses in each.
CAUSEWAY_DEVICE void load_box_both(uint32_t target, const CUtensorMap* map, int column, int row,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(static_cast<uint16_t>(3))
      : "memory");
}

// Shared memory → the box of a 3-D tensor at (column, row, plane), in a bulk group of the calling
// thread.
CAUSEWAY_DEVICE void store_box(const CUtensorMap* map, int column, int row, int plane,
                               uint32_t source) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          map),
      "r"(column), "r"(row), "r"(plane), "r"(source)
      : "memory");
}
CAUSEWAY_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// What the calling thread's stores read of shared memory may be overwritten.
CAUSEWAY_DEVICE void store_read_wait() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Orders this thread's writes to shared memory before what the copy engine reads of it.
CAUSEWAY_DEVICE void shared_proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- shared memory ---------------------------------------------------------------------------

CAUSEWAY_DEVICE void barrier_arrive(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals)
               : "memory");
}

// Four 8×8 matrices of bf16, of which lane l holds row l/4, columns 2(l%4) + {0,1}, transposed:
// lane l points to where column l%8 of matrix l/8 goes.
CAUSEWAY_DEVICE void store_transposed(uint32_t address, uint32_t a, uint32_t b, uint32_t c,
                                      uint32_t d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

CAUSEWAY_DEVICE float4 load_floats(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// Where an address of shared memory lies in the CTA of `rank` of the cluster.
CAUSEWAY_DEVICE uint32_t cluster_address(uint32_t address, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
CAUSEWAY_DEVICE void store_cluster(uint32_t address, float4 v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

// At a barrier of another CTA of the cluster. It orders reads of this thread's that have ended;
// with `.release.cluster` it would be a fence to L2.
CAUSEWAY_DEVICE void barrier_arrive_cluster(uint32_t address, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(address), "r"(arrivals)
               : "memory");
}

CAUSEWAY_DEVICE void store_float(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// ---- matrix products -------------------------------------------------------------------------

// The 8×8 matrix of bf16 that a warp holds (lane l: row l/4, columns 2(l%4) + {0,1}), transposed.
CAUSEWAY_DEVICE uint32_t transpose(uint32_t fragment) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(fragment));
  return result;
}

// Four 8×8 matrices of bf16 from shared memory; lane l points to row l%8 of matrix l/8.
CAUSEWAY_DEVICE void load_matrices(uint32_t (&fragments)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
               : "r"(address)
               : "memory");
}

CAUSEWAY_DEVICE uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// Products of two pairs of bf16, rounded to bf16.
CAUSEWAY_DEVICE uint32_t multiply_pair(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// d[16×8] += a[16×16] · b[8×16]ᵀ, one warp. Lane l holds in d[{0,1}] row l/4, columns
// 2(l%4) + {0,1}; in d[{2,3}] the same columns, 8 rows below.
CAUSEWAY_DEVICE void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d[64×2R] += a[64×16] · b[2R×16]ᵀ for R registers, one warpgroup. Thread t of the 128 holds in
//   d[4j + {0,1}]: row 16·(t/32) + (t%32)/4, columns 8j + 2·(t%4) + {0,1}
//   d[4j + {2,3}]: the same columns, 8 rows below.
CAUSEWAY_DEVICE void mma(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3}, "
      "%4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}

CAUSEWAY_DEVICE void mma(float (&d)[8], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "l"(a), "l"(b));
}

CAUSEWAY_DEVICE void mma(float (&d)[16], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b));
}

CAUSEWAY_DEVICE void mma(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

CAUSEWAY_DEVICE void mma(float (&d)[48], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47}, "
      "%48, %49, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
      : "l"(a), "l"(b));
}

CAUSEWAY_DEVICE void mma(float (&d)[64], uint64_t a, uint64_t b) { mma_64x128x16(d, a, b); }

// Keeps the compiler from moving uses of the sums across asynchronous products.
template <int kCount>
CAUSEWAY_DEVICE void hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace causeway::kernels::gemm::ptx
