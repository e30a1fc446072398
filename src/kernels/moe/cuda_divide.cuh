// Division of f32 without the code for numbers that do not occur, which is as long as a small
// kernel.
#pragma once

namespace causeway::kernels::moe {

// a / b, to the bit as `/` has it where b, a and the quotient have magnitudes from 2^-100 to 2^100,
// or a is +0. Smaller quotients may differ in the last bit, and -0 gives +0; infinity and NaN come
// out as there.
__device__ __forceinline__ float divide(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  const float better = fmaf(inverse, fmaf(-b, inverse, 1.0f), inverse);
  const float quotient = a * better;
  const float exact = fmaf(better, fmaf(-b, quotient, a), quotient);
  return isnan(exact) ? a * inverse : exact;
}

}  // namespace causeway::kernels::moe
