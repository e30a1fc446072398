// Choosing the next token from a row of logits, reproducibly: the draw depends on the seed and the
// position only, never on the batch or the thread.
//
// Order, as in the field's engines: edits of single tokens (a mask, all but the allowed ones,
// biases, banned ones), penalties, temperature, then top-k, top-p and min-p on the softmax, then
// one draw by the inverse of the cumulative distribution. Log-probabilities are those of the
// softmax of the raw logits (before edits, penalties and temperature), as OpenAI reports them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"

namespace causeway::kernels::sampling {

struct TokenBias {
  TokenId token = 0;
  float bias = 0.0f;
};

struct Params {
  float temperature = 1.0f;  // 0: greedy, the lowest id among equals
  float top_p = 1.0f;
  std::int32_t top_k = 0;  // 0: all
  float min_p = 0.0f;
  float presence_penalty = 0.0f;    // on tokens after the prompt
  float frequency_penalty = 0.0f;   // on tokens after the prompt
  float repetition_penalty = 1.0f;  // on prompt and output
  std::uint64_t seed = 0;
  std::int64_t position = 0;           // of the token to be chosen, counted from the prompt's start
  std::int32_t top_logprobs = -1;      // -1: none wanted
  std::span<const TokenId> history{};  // prompt and output so far; empty when no penalty is set
  std::int64_t prompt_tokens = 0;      // of history
  // Edits, in this order; tokens outside the vocabulary are ignored.
  // Bit t % 32 of word t / 32: token t stays, the others become -infinity; those behind its end,
  // too. Empty: all stay.
  std::span<const std::uint32_t> mask{};
  std::span<const TokenId> allowed{};  // the others become -infinity; empty: none does
  std::span<const TokenBias> bias{};   // added; each token once
  std::span<const TokenId> banned{};   // become -infinity
};

// The token of a row whose raw logits are all NaN, whatever the parameters: none can be chosen.
inline constexpr TokenId kNoToken = -1;

struct Sample {
  TokenId token = 0;
  float logprob = 0.0f;
  std::vector<std::pair<TokenId, float>> top{};  // descending; ties by lower id
};

// logits: [vocab], f32; edits and penalties are applied in place. NaN logits are never chosen;
// of a row of NaN alone there is neither a token (kNoToken) nor a log-probability.
Sample sample(std::span<float> logits, const Params& params);

}  // namespace causeway::kernels::sampling
