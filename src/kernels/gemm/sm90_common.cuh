// What both own kernels of the resident-weight product share: the walk of their feeding threads,
// and what they do with finished sums: bias, residual, SiLU, rounding, and the store of two
// neighbouring columns of one row of out.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda_bf16.cuh"
#include "kernels/gemm/even_shares.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/ptx/device.cuh"

namespace causeway::kernels::gemm {

// What a CTA takes of an SM's 228 KiB, of which 1 KiB a CTA is the system's. CTAs of one kernel and
// of the next fit on an SM when one takes less and the other more; two that take more do not, and
// for two that take less there is no room beside one that takes more. So where the shares of
// neighbours alternate, every SM gets one CTA of each. With equal shares, a kernel whose CTAs lie
// in pairs on half of the SMs leaves the other half to the pairs of the next.
constexpr uint32_t kSharedLess = 104 * 1024;
constexpr uint32_t kSharedMore = 120 * 1024;

constexpr uint32_t kSharedOfSm = 228 * 1024, kSharedOfSystem = 1024;
// What there is beside a CTA that takes less: worth a stage more to kSplit.
constexpr uint32_t kSharedMost = 122 * 1024;
static_assert(kSharedLess + kSharedMost + 2 * kSharedOfSystem <= kSharedOfSm);
static_assert(kSharedMore <= kSharedMost);
static_assert(2 * (kSharedMore + kSharedOfSystem) > kSharedOfSm);
static_assert(2 * kSharedLess + kSharedMore + 3 * kSharedOfSystem > kSharedOfSm);

constexpr uint32_t shared_max(CudaShare share) {
  return share == CudaShare::kMore ? kSharedMore : kSharedLess;
}

// Where a feeding thread is in its CTA's steps; counted along, because a division a step is time
// that the memory waits.
struct FeedStep {
  int tile, step;

  CAUSEWAY_DEVICE void advance(int k_steps) {
    if (++step == k_steps) {
      step = 0;
      ++tile;
    }
  }
};

// What a kernel does with finished sums. A kernel's code takes time at every launch whether it runs
// or not (README), so kernels for what common models need have nothing else: pairs of columns, no
// bias.
enum class Finish {
  kPlain,  // bf16; of kRows with or without a residual
  kGated,  // silu_mul
  kF32,
  kAny,  // whatever OutputArgs says
};

struct OutputArgs {
  void* out;  // bf16 or f32 [m][n], row stride out_stride
  int64_t out_stride;
  const __nv_bfloat16* bias;      // [n], or [2n] for silu_mul; null: none
  const __nv_bfloat16* residual;  // [m][n], row stride residual_stride; null: none
  int64_t residual_stride;
  int m, n;
  bool out_f32, silu_mul;
  bool pairs;  // out and residual allow accesses to pairs from even columns on; n is even
};

template <Finish kFinish>
CAUSEWAY_DEVICE bool gates(const OutputArgs& args) {
  return kFinish == Finish::kGated || (kFinish == Finish::kAny && args.silu_mul);
}
template <Finish kFinish>
CAUSEWAY_DEVICE bool stores_f32(const OutputArgs& args) {
  return kFinish == Finish::kF32 || (kFinish == Finish::kAny && args.out_f32);
}
template <Finish kFinish>
CAUSEWAY_DEVICE bool stores_pairs(const OutputArgs& args) {
  return kFinish != Finish::kAny || args.pairs;
}
template <Finish kFinish>
CAUSEWAY_DEVICE bool adds_residual(const OutputArgs& args) {
  return (kFinish == Finish::kPlain || kFinish == Finish::kAny) && args.residual != nullptr;
}

CAUSEWAY_DEVICE float to_float(uint32_t pair, int half) {
  return __uint_as_float(half == 0 ? pair << 16 : pair & 0xFFFF0000u);
}

template <Finish kFinish>
CAUSEWAY_DEVICE float bias_at(const OutputArgs& args, int index, bool inside) {
  if constexpr (kFinish != Finish::kAny) return 0.0f;
  return args.bias != nullptr && inside ? __bfloat162float(args.bias[index]) : 0.0f;
}

// By the approximate division: the other one is a call.
CAUSEWAY_DEVICE float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// What a residual adds to columns (column, column + 1) of rows m, m + 8 …: all asked for at once,
// and by kRows long before it is stored with, because it comes through L2 behind all the weights on
// their way; only where pairs are stored. `column` is even, and may lie outside.
template <Finish kFinish, int kCount>
CAUSEWAY_DEVICE void ask_residual(uint32_t (&pairs)[kCount], const OutputArgs& args, int m,
                                  int column) {
  if (!adds_residual<kFinish>(args) || !stores_pairs<kFinish>(args) || column >= args.n) return;
  const __nv_bfloat16* from = args.residual + m * args.residual_stride + column;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (m + i * 8 < args.m) pairs[i] = __ldcg(reinterpret_cast<const uint32_t*>(from));
    from += 8 * args.residual_stride;
  }
}

// Columns (column, column + 1) of row m; column is even, and may lie outside. `residual`: what
// ask_residual() brought.
template <Finish kFinish>
CAUSEWAY_DEVICE void store_bf16(const OutputArgs& args, int m, int column, float2 value,
                                uint32_t residual) {
  auto* target = static_cast<__nv_bfloat16*>(args.out) + m * args.out_stride + column;
  if (stores_pairs<kFinish>(args)) {
    if (column >= args.n) return;
    if (adds_residual<kFinish>(args)) {
      value.x += to_float(residual, 0);
      value.y += to_float(residual, 1);
    }
    *reinterpret_cast<uint32_t*>(target) = pack(value.x, value.y);
    return;
  }
  const __nv_bfloat16* add = args.residual + m * args.residual_stride + column;
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    if (column + i >= args.n) break;
    float one = i == 0 ? value.x : value.y;
    if (args.residual != nullptr) one += __bfloat162float(add[i]);
    target[i] = __float2bfloat16_rn(one);
  }
}

// The same in whichever type out has.
template <Finish kFinish>
CAUSEWAY_DEVICE void store_sum(const OutputArgs& args, int m, int column, float2 value,
                               uint32_t residual) {
  if (!stores_f32<kFinish>(args)) {
    store_bf16<kFinish>(args, m, column, value, residual);
    return;
  }
  float* target = static_cast<float*>(args.out) + m * args.out_stride + column;
  if (stores_pairs<kFinish>(args)) {
    if (column < args.n) *reinterpret_cast<float2*>(target) = value;
    return;
  }
  if (column < args.n) target[0] = value.x;
  if (column + 1 < args.n) target[1] = value.y;
}

}  // namespace causeway::kernels::gemm
