// What kernels know that serve any heads: those of the definition (cuda_reference.cu) and of the
// tensor cores (cuda_tensor.cu).
#pragma once

#include <cstdint>

#include "kernels/attention/cuda_decode.cuh"

namespace causeway::kernels::attention::parts {

// Rows of q and out are of query tokens here, not of sequences.
struct PagedArgs : DecodeArgs {
  const int32_t* query_begin;
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

// The arguments for sequences [first, last): all that decode, or all prompts.
inline PagedArgs paged_args(const ParamsCuda& p, std::int64_t first, std::int64_t last) {
  PagedArgs a = {decode_args(p)};
  a.query_begin = p.query_begin;
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
