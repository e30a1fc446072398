// Norm of q and k heads, rotary embedding, and K and V into their frames: one launch, because a
// decode step is bound by launches here, not by bytes.
#include <cmath>
#include <limits>
#include <string>

#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/cuda_fused_prepare.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention {
namespace {

constexpr int kThreads = 256;
constexpr int kQuad = 4;      // elements that a lane takes of each half of a head, in one access
constexpr int kQuadsMax = 2;  // such pairs that a lane holds: heads of up to 512

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
  float epsilon, norm_offset;
  int q_heads, kv_heads, half, block_tokens;
  int logn_context;    // INT_MAX: no query is scaled
  float logn_inverse;  // 1 / log(logn_context)
};

// One access each way, as Bf16x8.
struct alignas(8) Quad {
  uint2 words;
};

__device__ __forceinline__ void widen(const Quad& packed, float (&out)[kQuad]) {
  out[0] = __uint_as_float(packed.words.x << 16);
  out[1] = __uint_as_float(packed.words.x & 0xFFFF0000u);
  out[2] = __uint_as_float(packed.words.y << 16);
  out[3] = __uint_as_float(packed.words.y & 0xFFFF0000u);
}
__device__ __forceinline__ Quad narrow(const float (&in)[kQuad]) {
  return {make_uint2(pack(in[0], in[1]), pack(in[2], in[3]))};
}
__device__ __forceinline__ void widen(const float* row, float (&out)[kQuad]) {
  const float4 four = *reinterpret_cast<const float4*>(row);
  out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
}

// Grid: (tokens, ⌈heads / (kThreads / kTeam)⌉); a team of kTeam lanes a head.
template <int kTeam>
__global__ void __launch_bounds__(kThreads) prepare_kernel(const Args a) {
  wait_for_predecessor();
  const int64_t token = a.first + blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y) * (kThreads / kTeam) + thread / kTeam;
  const int lane = thread % kTeam;
  const int position = a.position[token];
  const int heads = a.q_heads + 2 * a.kv_heads;
  if (position < 0) return;
  const bool is_q = head < a.q_heads, is_v = head >= a.q_heads + a.kv_heads;
  __nv_bfloat16* x = a.qkv + token * a.qkv_stride + static_cast<int64_t>(head) * 2 * a.half;

  // ---- load ------------------------------------------------------------------------------------
  float low[kQuadsMax][kQuad], high[kQuadsMax][kQuad], squares = 0;
  const auto holds = [&](int i) {
    return head < heads && (i == 0 || kTeam == 32) && (lane + kTeam * i) * kQuad < a.half;
  };
#pragma unroll
  for (int i = 0; i < kQuadsMax; ++i) {
    if (!holds(i)) continue;
    const int at = (lane + kTeam * i) * kQuad;
    widen(*reinterpret_cast<const Quad*>(x + at), low[i]);
    widen(*reinterpret_cast<const Quad*>(x + at + a.half), high[i]);
#pragma unroll
    for (int j = 0; j < kQuad; ++j) squares += low[i][j] * low[i][j] + high[i][j] * high[i][j];
  }

  // ---- norm and rotation ------------------------------------------------------------------------
  const __nv_bfloat16* norm = is_v ? nullptr : is_q ? a.q_norm : a.k_norm;
  float factor = 1.0f;
  if (a.q_norm != nullptr || a.k_norm != nullptr) {  // the same in all lanes
#pragma unroll
    for (int lanes = kTeam / 2; lanes > 0; lanes /= 2) {
      squares += __shfl_xor_sync(0xFFFFFFFFu, squares, lanes);
    }
    if (norm != nullptr) factor = parts::norm_factor(squares, 2 * a.half, a.epsilon);
  }
#pragma unroll
  for (int i = 0; i < kQuadsMax; ++i) {
    if (is_v || !holds(i)) continue;
    const int at = (lane + kTeam * i) * kQuad;
    float gain[2][kQuad] = {{1, 1, 1, 1}, {1, 1, 1, 1}}, cosine[kQuad], sine[kQuad];
    if (norm != nullptr) {
      widen(*reinterpret_cast<const Quad*>(norm + at), gain[0]);
      widen(*reinterpret_cast<const Quad*>(norm + at + a.half), gain[1]);
    }
    const float* row = a.table + token * 2 * a.half + at;
    widen(row, cosine);
    widen(row + a.half, sine);
#pragma unroll
    for (int j = 0; j < kQuad; ++j) {
      if (norm != nullptr) {
        low[i][j] *= factor * (a.norm_offset + gain[0][j]);
        high[i][j] *= factor * (a.norm_offset + gain[1][j]);
      }
      parts::rotate(low[i][j], high[i][j], cosine[j], sine[j]);
    }
  }
  if (is_q && position >= a.logn_context) {
    const float scale = logf(static_cast<float>(position + 1)) * a.logn_inverse;
#pragma unroll
    for (int i = 0; i < kQuadsMax; ++i) {
      if (!holds(i)) continue;
#pragma unroll
      for (int j = 0; j < kQuad; ++j) low[i][j] *= scale, high[i][j] *= scale;
    }
  }

  // ---- store: q in place, k and v into the frame ------------------------------------------------
  __nv_bfloat16* target = x;
  if (!is_q && head < heads) {
    const int32_t* table = a.frames + a.frame_begin[a.sequence[token]];
    const int64_t frame = table[position / a.block_tokens];
    const int kv_head = (head - a.q_heads) % a.kv_heads;
    target = reinterpret_cast<__nv_bfloat16*>(a.base + frame * a.frame_bytes + a.key_offset +
                                              (is_v ? a.value_offset : 0) +
                                              (position % a.block_tokens) * a.token_stride) +
             kv_head * 2 * a.half;
  }
#pragma unroll
  for (int i = 0; i < kQuadsMax; ++i) {
    if (!holds(i)) continue;
    const int at = (lane + kTeam * i) * kQuad;
    *reinterpret_cast<Quad*>(target + at) = narrow(low[i]);
    *reinterpret_cast<Quad*>(target + at + a.half) = narrow(high[i]);
  }
}

// Eight bytes at a time: what stands between heads, tokens and frames must be multiples of that.
bool addressable(const PrepareCuda& p) {
  return p.heads.size % (2 * kQuad) == 0 && p.qkv_stride % kQuad == 0 &&
         p.kv.token_stride.count % 8 == 0 && p.kv.value_offset.count % 8 == 0 &&
         p.kv.key_offset.count % 8 == 0 && p.kv.frame_bytes.count % 8 == 0;
}

}  // namespace

Status prepare(const PrepareCuda& p, CudaStream stream) {
  if (p.kv.dtype != DType::kBF16) return unsupported("attention: KV on a GPU is held as BF16");
  if (p.first < 0 || p.first > p.tokens || p.heads.kv < 1 || p.heads.query < 1 ||
      p.heads.size < 2 || p.logn_context < 0 || p.logn_context == 1 ||
      p.heads.size > 2 * 32 * kQuad * kQuadsMax || p.kv.block_tokens < 1 || !addressable(p)) {
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
  a.norm_offset = p.norm_offset;
  a.q_heads = static_cast<int>(p.heads.query);
  a.kv_heads = static_cast<int>(p.heads.kv);
  a.half = static_cast<int>(p.heads.size / 2);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  const bool logn = p.logn_context > 0 && p.logn_context < std::numeric_limits<int>::max();
  a.logn_context = logn ? static_cast<int>(p.logn_context) : std::numeric_limits<int>::max();
  a.logn_inverse = logn ? static_cast<float>(1 / std::log(static_cast<double>(p.logn_context))) : 0;
  const int heads = a.q_heads + 2 * a.kv_heads;
  const int team = a.half <= 8 * kQuad ? 8 : a.half <= 16 * kQuad ? 16 : 32;
  auto* kernel = team == 8    ? prepare_kernel<8>
                 : team == 16 ? prepare_kernel<16>
                              : prepare_kernel<32>;
  const int at_once = kThreads / team;
  const dim3 grid(static_cast<unsigned>(p.tokens - p.first), (heads + at_once - 1) / at_once);
  return launch("qk norm, rope and KV write", stream, {grid, dim3(kThreads)}, kernel, a);
}

}  // namespace causeway::kernels::attention
