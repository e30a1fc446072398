// The warp-level instructions that the kernels of this folder are made of: asynchronous copies to
// shared memory, fragments of bf16 matrices, and their 16 × 8 × 16 product with f32 sums.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace causeway::kernels::mma {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// L2 policy of what is read once and must not drive out what others need.
__device__ __forceinline__ uint64_t policy_of_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// 16 bytes to shared memory, past L1; zeros when not `valid`: then nothing is read, and the source
// may lie anywhere.
__device__ __forceinline__ void copy_async(uint32_t target, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t target, const void* source, bool valid,
                                           uint64_t policy) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(target),
      "l"(source), "r"(valid ? 16 : 0), "l"(policy)
      : "memory");
}

// The same where `copies`: in one instruction, while a branch around it would take everything that
// makes the addresses with it, instruction by instruction.
__device__ __forceinline__ void copy_async_if(bool copies, uint32_t target, const void* source,
                                              bool valid, uint64_t policy) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\n"
      "@p cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;\n}" ::"r"(
          target),
      "l"(source), "r"(valid ? 16 : 0), "l"(policy), "r"(copies ? 1 : 0)
      : "memory");
}

__device__ __forceinline__ void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

__device__ __forceinline__ void store_shared(uint32_t target, __nv_bfloat16 value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(target), "h"(__bfloat16_as_ushort(value))
               : "memory");
}

__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most `kOpen` of this thread's groups are still coming.
template <int kOpen>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// Four 8 × 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&d)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&d)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(row)
               : "memory");
}

// An 8 × 8 matrix transposed: lane l holds row l / 4, columns l % 4 × 2 and the next.
__device__ __forceinline__ uint32_t transposed(uint32_t matrix) {
  uint32_t d;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(matrix));
  return d;
}

// c [16 × 8] += a [16 × 16] · b [16 × 8]. Lane l holds of c: rows l / 4 (c0, c1) and l / 4 + 8
// (c2, c3), columns l % 4 × 2 and the next; of a: the same rows (a0, a1), columns l % 4 × 2 and the
// next, and 8 further (a2, a3); of b: rows l % 4 × 2 and the next (b0), 8 further (b1), column l
// / 4.
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace causeway::kernels::mma
