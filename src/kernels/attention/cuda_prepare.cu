// Norm of q and k heads, rotary embedding, and K and V into their frames: one launch, because a
// decode step is bound by launches here, not by bytes.
#include <string>

#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/cuda_fresh.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention {
namespace {

constexpr int kWarps = 8;
constexpr int kPairsMax = 8;  // pairs (i, i + size/2) that a lane holds: heads of up to 512

struct Args {
  __nv_bfloat16* qkv;  // [tokens][q heads, k heads, v heads][size]
  int64_t qkv_stride, first;
  char* base;
  int64_t frame_bytes, key_offset, value_offset, token_stride;
  const int32_t* position;  // [tokens]
  const int32_t* sequence;  // [tokens]
  const int32_t* frames;    // as PrepareCuda has them
  const int32_t* frame_begin;
  const float* table;           // [tokens][size]: cosines, sines
  const __nv_bfloat16* q_norm;  // [size] or null
  const __nv_bfloat16* k_norm;
  float epsilon;
  int q_heads, kv_heads, half, block_tokens;
};

// Grid: (tokens, ⌈heads / kWarps⌉); a warp a head.
__global__ void __launch_bounds__(kWarps * 32) prepare_kernel(const Args a) {
  wait_for_predecessor();
  const int64_t token = a.first + blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int position = a.position[token];
  if (head >= a.q_heads + 2 * a.kv_heads || position < 0) return;
  const bool is_q = head < a.q_heads;
  const bool is_v = head >= a.q_heads + a.kv_heads;
  __nv_bfloat16* x = a.qkv + token * a.qkv_stride + static_cast<int64_t>(head) * 2 * a.half;

  // ---- load ------------------------------------------------------------------------------------
  float low[kPairsMax], high[kPairsMax], squares = 0;
#pragma unroll
  for (int i = 0; i < kPairsMax; ++i) {
    const int at = lane + 32 * i;
    low[i] = at < a.half ? __bfloat162float(x[at]) : 0.0f;
    high[i] = at < a.half ? __bfloat162float(x[at + a.half]) : 0.0f;
    squares += low[i] * low[i] + high[i] * high[i];
  }

  // ---- norm and rotation
  // -------------------------------------------------------------------------
  const __nv_bfloat16* norm = is_q ? a.q_norm : a.k_norm;
  if (!is_v && norm != nullptr) {
    const float factor = parts::norm_factor(warp_sum(squares), 2 * a.half, a.epsilon);
#pragma unroll
    for (int i = 0; i < kPairsMax; ++i) {
      const int at = lane + 32 * i;
      if (at >= a.half) continue;
      low[i] *= factor * __bfloat162float(norm[at]);
      high[i] *= factor * __bfloat162float(norm[at + a.half]);
    }
  }
  if (!is_v) {
    const float* row = a.table + token * 2 * a.half;
#pragma unroll
    for (int i = 0; i < kPairsMax; ++i) {
      const int at = lane + 32 * i;
      if (at >= a.half) continue;
      parts::rotate(low[i], high[i], row[at], row[a.half + at]);
    }
  }

  // ---- store: q in place, k and v into the frame
  // -------------------------------------------------
  __nv_bfloat16* target = x;
  if (!is_q) {
    const int32_t* table = a.frames + a.frame_begin[a.sequence[token]];
    const int64_t frame = table[position / a.block_tokens];
    const int kv_head = (head - a.q_heads) % a.kv_heads;
    target = reinterpret_cast<__nv_bfloat16*>(a.base + frame * a.frame_bytes + a.key_offset +
                                              (is_v ? a.value_offset : 0) +
                                              (position % a.block_tokens) * a.token_stride) +
             kv_head * 2 * a.half;
  }
#pragma unroll
  for (int i = 0; i < kPairsMax; ++i) {
    const int at = lane + 32 * i;
    if (at >= a.half) continue;
    target[at] = __float2bfloat16(low[i]);
    target[at + a.half] = __float2bfloat16(high[i]);
  }
}

}  // namespace

Status prepare(const PrepareCuda& p, CudaStream stream) {
  if (p.kv.dtype != DType::kBF16) return unsupported("attention: KV on a GPU is held as BF16");
  if (p.first < 0 || p.first > p.tokens || p.heads.kv < 1 || p.heads.query < 1 ||
      p.heads.size < 2 || p.heads.size % 2 != 0 || p.heads.size > 64 * kPairsMax ||
      p.kv.block_tokens < 1) {
    return invalid_argument("attention: cannot prepare heads of " + std::to_string(p.heads.size));
  }
  Args a = {};
  a.qkv = static_cast<__nv_bfloat16*>(p.qkv);
  a.qkv_stride = p.qkv_stride;
  a.first = p.first;
  a.base = reinterpret_cast<char*>(p.kv.base);
  a.frame_bytes = p.kv.frame_bytes.count;
  a.key_offset = p.kv.key_offset.count;
  a.value_offset = p.kv.value_offset.count;
  a.token_stride = p.kv.token_stride.count;
  a.position = p.position;
  a.sequence = p.sequence;
  a.frames = p.frames;
  a.frame_begin = p.frame_begin;
  a.table = p.rope_table;
  a.q_norm = static_cast<const __nv_bfloat16*>(p.q_norm);
  a.k_norm = static_cast<const __nv_bfloat16*>(p.k_norm);
  a.epsilon = p.epsilon;
  a.q_heads = static_cast<int>(p.heads.query);
  a.kv_heads = static_cast<int>(p.heads.kv);
  a.half = static_cast<int>(p.heads.size / 2);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  const int heads = a.q_heads + 2 * a.kv_heads;
  const dim3 grid(static_cast<unsigned>(p.tokens - p.first), (heads + kWarps - 1) / kWarps);
  return launch("qk norm, rope and KV write", stream, {grid, dim3(kWarps * 32)}, prepare_kernel, a);
}

}  // namespace causeway::kernels::attention
