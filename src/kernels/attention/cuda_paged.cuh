// What kernels know that serve any heads: those of the definition (cuda_reference.cu) and of the
// tensor cores (cuda_tensor.cu).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/cuda_parts.h"

namespace causeway::kernels::attention::parts {

struct PagedArgs {
  const __nv_bfloat16* q;  // [tokens][query heads][size], rows q_stride apart
  int64_t q_stride;
  __nv_bfloat16* out;    // [tokens][query heads][size]
  const char* keys;      // K of the layer in frame 0
  int64_t value_offset;  // bytes
  int64_t frame_bytes;
  int64_t token_stride;   // bytes
  const int32_t* frames;  // as ParamsCuda has them
  const int32_t* frame_begin;
  const int32_t* query_begin;
  const int32_t* length;
  int first, last;  // sequences
  int query_heads, group, size, block_tokens;
  int window;
  float scale_log2;
  float cap;  // of scores whose exponentials have the base 2; 0: none

  __device__ float score_of(float product) const {
    const float score = product * scale_log2;
    return cap > 0 ? cap * tanhf(score / cap) : score;
  }
};

// Of sequences [first, last): all that decode, or all prompts.
inline PagedArgs paged_args(const ParamsCuda& p, std::int64_t first, std::int64_t last) {
  PagedArgs a = {};
  a.q = static_cast<const __nv_bfloat16*>(p.q);
  a.q_stride = p.q_stride;
  a.out = static_cast<__nv_bfloat16*>(p.out);
  a.keys = reinterpret_cast<const char*>(p.kv.base) + p.kv.key_offset.count;
  a.value_offset = p.kv.value_offset.count;
  a.frame_bytes = p.kv.frame_bytes.count;
  a.token_stride = p.kv.token_stride.count;
  a.frames = p.frames;
  a.frame_begin = p.frame_begin;
  a.query_begin = p.query_begin;
  a.length = p.length;
  a.first = static_cast<int>(first);
  a.last = static_cast<int>(last);
  a.query_heads = static_cast<int>(p.heads.query);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.size = static_cast<int>(p.heads.size);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  a.window = device_window(p);
  a.scale_log2 = p.scale * 1.4426950408889634f;
  a.cap = p.cap * 1.4426950408889634f;
  return a;
}

// Rows of q that these sequences may have.
inline std::int64_t rows_at_most(const ParamsCuda& p, std::int64_t first, std::int64_t last) {
  return first == 0 ? (last == p.decode ? p.decode : p.tokens) : p.tokens - p.decode;
}

}  // namespace causeway::kernels::attention::parts
