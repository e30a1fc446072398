// What the ways of decode have in common: where a step's operands lie, and the tiles of tokens.
#pragma once

#include "kernels/attention/cuda_fused_prepare.cuh"
#include "kernels/attention/cuda_parts.h"

namespace causeway::kernels::attention::parts {

constexpr int kTile = 16;  // tokens

__device__ inline int tiles_of(int length) { return (length + kTile - 1) / kTile; }

// 2^x by the instruction that exp2f() is made of. That scales around it for results below
// 2^-126, in three instructions more; here they are 0. All others are the same to the bit.
__device__ __forceinline__ float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x, rounded as 1.0f / x is, x ≥ 1 and finite: what a division by a sum of weights comes to
// without the paths for tiny, huge and odd numbers. The largest weight is 1.
__device__ __forceinline__ float inverse_of_sum(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return __fmaf_rn(y, -__fmaf_rn(x, y, -1.0f), y);
}

struct DecodeArgs {
  const __nv_bfloat16* q;  // [sequences][kv heads][group][size], rows q_stride apart
  int64_t q_stride;
  __nv_bfloat16* out;    // [sequences][kv heads][group][size]
  char* keys;            // K of the layer in frame 0
  int64_t value_offset;  // bytes
  int64_t frame_bytes;
  int64_t token_stride;   // bytes
  const int32_t* frames;  // as ParamsCuda has them
  const int32_t* frame_begin;
  const int32_t* length;
};

inline DecodeArgs decode_args(const ParamsCuda& p) {
  DecodeArgs a = {};
  a.q = static_cast<const __nv_bfloat16*>(p.q);
  a.q_stride = p.q_stride;
  a.out = static_cast<__nv_bfloat16*>(p.out);
  a.keys = reinterpret_cast<char*>(p.kv.base) + p.kv.key_offset.count;
  a.value_offset = p.kv.value_offset.count;
  a.frame_bytes = p.kv.frame_bytes.count;
  a.token_stride = p.kv.token_stride.count;
  a.frames = p.frames;
  a.frame_begin = p.frame_begin;
  a.length = p.length;
  return a;
}

inline FusedPrepareArgs fused_prepare_args(const ParamsCuda& p) {
  if (p.fused_prepare == nullptr) return {};
  return {p.fused_prepare->rope_table, static_cast<const __nv_bfloat16*>(p.fused_prepare->q_norm),
          static_cast<const __nv_bfloat16*>(p.fused_prepare->k_norm), p.fused_prepare->epsilon,
          p.fused_prepare->norm_offset};
}

// Scores are scaled by log2(e), so that their exponentials have the base 2.
constexpr float kLog2E = 1.4426950408889634f;
inline float scale_log2_of(const ParamsCuda& p) { return p.scale * kLog2E; }

}  // namespace causeway::kernels::attention::parts
