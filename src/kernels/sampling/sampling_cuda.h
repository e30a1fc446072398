// Choosing tokens on a GPU as sampling.h defines it, row by row: a row's token depends on its
// logits, parameters, seed and position alone, never on the batch. It is the host's token wherever
// rounding does not decide: weights are f32 here (2^-44 steps of the largest) and f64 there. Rows
// of NaN alone have kNoToken and a log-probability of 0.
//
// Only enqueues: parameters and results are device memory, nothing waits for the host.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::sampling {

// sampling.h's Params of one row, in device memory.
struct RowCuda {
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::int32_t top_k = 0;
  std::int32_t top_logprobs = -1;  // at most kTopLogprobsMax
  std::uint64_t seed = 0;
  std::int64_t position = 0;
  std::int64_t history_begin = 0;  // of the row's tokens in ParamsCuda::history
  std::int32_t history_tokens = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t active = 1;  // 0: a place of the bucket without a sequence; its token is kNoToken
  std::int32_t unused = 0;
};

// sampling.h's edits of one row, in device memory: where they lie in ParamsCuda::edit, one behind
// the other, and its mask in ParamsCuda::mask.
struct RowEditsCuda {
  std::int64_t begin = 0;
  std::int32_t allowed = 0;  // at most kAllowedMax
  std::int32_t biased = 0;
  std::int32_t banned = 0;
  std::int32_t mask_words = 0;  // 0: it has none
  std::int64_t mask_begin = 0;
};
struct TokenEditCuda {
  TokenId token = 0;
  float bias = 0.0f;  // of the biased ones
};

constexpr std::int32_t kAllowedMax = 1024;
constexpr std::int32_t kTopLogprobsMax = 64;
constexpr std::int64_t kVocabMax = 320 << 10;  // what fits a cluster's shared memory

struct ParamsCuda {
  std::int64_t rows = 0;
  std::int64_t vocab = 0;         // at most kVocabMax
  const float* logits = nullptr;  // [rows][vocab], rows logits_stride apart; not changed
  std::int64_t logits_stride = 0;
  const RowCuda* row = nullptr;      // [rows]
  const TokenId* history = nullptr;  // of all rows that have penalties
  TokenId* token = nullptr;          // [rows]
  float* logprob = nullptr;          // [rows], written where top_logprobs ≥ 0; or null
  TokenId* top_token = nullptr;  // [rows][top_stride], descending, -1 where no logit is left that
                                 // is a number; or null
  float* top_logprob = nullptr;  // likewise
  std::int64_t top_stride = 0;   // ≥ the largest top_logprobs
  // Both or neither; without them a batch runs kernels that know no edits.
  const RowEditsCuda* row_edits = nullptr;  // [rows]
  const TokenEditCuda* edit = nullptr;      // of all rows
  const std::uint32_t* mask = nullptr;      // of all rows; read where mask_words > 0
  // What the rows ask for at most: a batch of greedy rows takes one pass. Part of a captured graph.
  bool all_greedy = false;  // temperature 0, no edits, no penalties, no log-probabilities
  bool penalties = true;
};

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::sampling
