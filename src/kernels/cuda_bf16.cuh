// bf16 in registers: pairs in a word, and eight as they are loaded and stored in one go.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace causeway::kernels {

// Two f32 → two bf16, the first in the low half; round to nearest even. One instruction.
__device__ __forceinline__ uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(both);
}

// A struct of __nv_bfloat162 would be copied by four accesses of four bytes.
struct alignas(16) Bf16x8 {
  uint4 words;
};

__device__ __forceinline__ void widen(const Bf16x8& packed, float (&out)[8]) {
  const uint32_t words[4] = {packed.words.x, packed.words.y, packed.words.z, packed.words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
}

__device__ __forceinline__ Bf16x8 narrow(const float (&in)[8]) {
  return {
      make_uint4(pack(in[0], in[1]), pack(in[2], in[3]), pack(in[4], in[5]), pack(in[6], in[7]))};
}

}  // namespace causeway::kernels
