// What one thread of attention does in one go: some query tokens and KV heads of one sequence
// against a range of its tokens. Plain data, read by the bodies of every instruction set.
#pragma once

#include "kernels/attention/attention.h"

namespace causeway::kernels::attention {

inline constexpr std::int64_t kTileTokens = 64;  // tokens of KV taken at a time
inline constexpr std::int64_t kPadding = 16;     // head size in scratch is a multiple of this

// A job's scratch. R = query rows of one KV head = query tokens × query heads a KV head.
struct Scratch {
  float* q = nullptr;        // [kv heads][R][size], scaled
  float* out = nullptr;      // [kv heads][R][padded size], not yet divided by `total`
  float* largest = nullptr;  // [kv heads][R], the largest score so far
  float* total = nullptr;    // [kv heads][R], Σ e^(score - largest)
  float* scores = nullptr;   // [R][kTileTokens]
  float* keys = nullptr;     // [size][kTileTokens], transposed
  float* values = nullptr;   // [kTileTokens][padded size]
};

struct Job {
  std::int64_t sequence = 0;  // index into Params::sequences
  std::int64_t query = 0;     // first query token, within the sequence
  std::int64_t queries = 0;
  std::int64_t kv_head = 0;
  std::int64_t kv_heads = 0;
  std::int64_t token_begin = 0;  // of the context that it attends to
  std::int64_t token_end = 0;
  std::int64_t partial = -1;  // where its partial result goes; -1: it covers the whole context
};

// A partial result of a row: unnormalised output [size], largest score, total.
inline constexpr std::int64_t kPartialExtra = 2;

inline std::int64_t padded(std::int64_t size) {
  return (size + kPadding - 1) / kPadding * kPadding;
}

struct JobArgs {
  PagedKv kv;
  Heads heads;
  float scale = 1;
  const FrameId* frames = nullptr;
  std::int64_t position = 0;  // of the first query token
  std::int64_t window = kNoWindow;
  float cap = 0;
  const float* q = nullptr;  // of the first query token
  std::int64_t q_stride = 0;
  float* out = nullptr;  // of the first query token
  std::int64_t out_stride = 0;
  float* partial = nullptr;  // [kv heads][R][size + kPartialExtra], or null
  Job job;
  Scratch scratch;
};

}  // namespace causeway::kernels::attention
