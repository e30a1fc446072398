// Words of shared memory by their addresses, this CTA's and those of others of its cluster; and
// loads and stores of global memory that the compiler leaves as they are written.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/ptx/device.cuh"

namespace causeway::kernels::ptx {

CAUSEWAY_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

CAUSEWAY_DEVICE uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

CAUSEWAY_DEVICE float4 load_floats(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// One word of shared memory, for telling a warpgroup what one thread knows.
CAUSEWAY_DEVICE void store_word(uint32_t address, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

CAUSEWAY_DEVICE void store_float(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

CAUSEWAY_DEVICE void store_shared(uint32_t target, __nv_bfloat16 value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(target), "h"(__bfloat16_as_ushort(value))
               : "memory");
}

CAUSEWAY_DEVICE void store_cluster(uint32_t address, float4 v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

// ---- global memory, relaxed --------------------------------------------------------------------

// Past the first cache, and in the order written: of weak loads the assembler puts some behind the
// use of others.
CAUSEWAY_DEVICE uint4 load_relaxed(const void* source) {
  uint4 words;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(source)
               : "memory");
  return words;
}

CAUSEWAY_DEVICE unsigned long long load_relaxed_long(const unsigned long long* word) {
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
// Each word by itself, in no order.
CAUSEWAY_DEVICE ulonglong2 load_relaxed_longs(const unsigned long long* words) {
  ulonglong2 two;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(two.x), "=l"(two.y)
               : "l"(words)
               : "memory");
  return two;
}
CAUSEWAY_DEVICE void store_relaxed_long(unsigned long long* word, unsigned long long value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

}  // namespace causeway::kernels::ptx
