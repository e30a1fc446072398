#include "engine/checked_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/dcheck.h"
#include "request/constraint.h"

namespace causeway::engine {
namespace {

constexpr std::int64_t kTokens = std::int64_t{1} << 31;  // that have ids

bool in_range(float value, float low, float high) { return value >= low && value <= high; }

// The server refuses more than this; here only what could harm other requests is refused.
Status check_sampling(const request::SamplingParams& sampling) {
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature)) {
    return invalid_argument("temperature must be a number not below 0");
  }
  if (!in_range(sampling.top_p, 0, 1) || !in_range(sampling.min_p, 0, 1)) {
    return invalid_argument("top_p and min_p must lie between 0 and 1");
  }
  if (!in_range(sampling.presence_penalty, -2, 2) || !in_range(sampling.frequency_penalty, -2, 2)) {
    return invalid_argument("presence_penalty and frequency_penalty must lie between -2 and 2");
  }
  if (!(sampling.repetition_penalty > 0) || !std::isfinite(sampling.repetition_penalty)) {
    return invalid_argument("repetition_penalty must be a number above 0");
  }
  if (std::max(sampling.top_logprobs, sampling.prompt_logprobs) > request::kTopLogprobsMax) {
    return invalid_argument("top_logprobs and prompt_logprobs must be at most " +
                            std::to_string(request::kTopLogprobsMax));
  }
  return {};
}

bool has_token(const ModelFacts& facts, TokenId token) {
  return token >= 0 && (facts.vocab <= 0 || token < facts.vocab);
}

Status check_edits(const request::Request& request, const ModelFacts& facts) {
  const auto& bias = request.logit_bias;
  const auto& allowed = request.allowed_tokens;
  if (bias.empty() && allowed.empty()) return {};
  const auto few = [](const auto& list) { return std::ssize(list) <= request::kEditedTokensMax; };
  if (!few(bias) || !few(allowed)) {
    return invalid_argument("logit_bias and allowed tokens are at most " +
                            std::to_string(request::kEditedTokensMax) + " each");
  }
  CAUSEWAY_DCHECK(facts.vocab >= 0, "a vocabulary of a negative size");
  std::vector<TokenId> biased;
  for (const request::TokenBias& one : bias) {
    if (!std::isfinite(one.bias)) return invalid_argument("logit_bias must hold numbers");
    biased.push_back(one.token);
  }
  std::sort(biased.begin(), biased.end());
  if (std::adjacent_find(biased.begin(), biased.end()) != biased.end()) {
    return invalid_argument("logit_bias names a token twice");
  }
  const auto known = [&](TokenId token) { return has_token(facts, token); };
  if (!std::all_of(biased.begin(), biased.end(), known) ||
      !std::all_of(allowed.begin(), allowed.end(), known)) {
    return invalid_argument("logit_bias or allowed tokens are outside the model's vocabulary");
  }
  return {};
}

Status check_length(const request::Request& request, const ModelFacts& facts) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t output = request.max_tokens.count;
  if (prompt == 0) return invalid_argument("the prompt has no tokens");
  if (output < 1) return invalid_argument("max_tokens must be at least 1");
  if (std::ssize(request.output) >= output) {
    return invalid_argument("the request has " + std::to_string(request.output.size()) +
                            " output tokens already, of at most " + std::to_string(output));
  }
  if (request.min_tokens < Tokens(0) || request.min_tokens > request.max_tokens) {
    return invalid_argument("min_tokens must lie between 0 and max_tokens");
  }
  const std::int64_t context = facts.max_model_len.count;
  if (prompt > context || output > context - prompt) {
    return invalid_argument("the request needs " + std::to_string(prompt) + " prompt tokens and " +
                            std::to_string(output) + " output tokens; the model's context is " +
                            std::to_string(context) + " tokens");
  }
  return {};
}

// A form tells where the answer ends; banned words do not.
bool may_end_by_form(const request::Request& request) {
  return request.constraint != nullptr &&
         request.constraint->text().kind != request::ConstraintKind::kBannedWords;
}

std::uint32_t bits_of(const std::vector<TokenId>& tokens) {
  std::uint32_t bits = 0;
  for (const TokenId token : tokens) bits |= static_cast<std::uint32_t>(token);
  return bits;
}

// A negative one is the largest of all. So many side by side, so that they are compared at once.
std::uint32_t largest(const std::vector<TokenId>& tokens) {
  constexpr std::size_t kLanes = 16;
  std::array<std::uint32_t, kLanes> most = {};
  std::size_t i = 0;
  for (; i + kLanes <= tokens.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      most[lane] = std::max(most[lane], static_cast<std::uint32_t>(tokens[i + lane]));
    }
  }
  for (; i < tokens.size(); ++i) most[0] = std::max(most[0], static_cast<std::uint32_t>(tokens[i]));
  return *std::max_element(most.begin(), most.end());
}

Status check_tokens(const request::Request& request, const ModelFacts& facts) {
  if (facts.vocab == 0) return {};
  for (const std::vector<TokenId>* const tokens : {&request.prompt, &request.output}) {
    const auto known =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(facts.vocab, 0, kTokens));
    // None is larger than all their bits together, which are sooner found.
    if (bits_of(*tokens) < known || largest(*tokens) < known) continue;
    for (const TokenId token : *tokens) {
      if (has_token(facts, token)) continue;
      return invalid_argument("prompt token " + std::to_string(token) +
                              " is outside the model's vocabulary of " +
                              std::to_string(facts.vocab));
    }
  }
  return {};
}

}  // namespace

Status check_frames(const request::Request& request, const ModelFacts& facts, std::int64_t frames) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t output = request.max_tokens.count;
  CAUSEWAY_DCHECK(facts.tokens_per_block.count >= 1, "a block without a token");
  const std::int64_t block = facts.tokens_per_block.count;
  // The last token's KV is never written.
  const std::int64_t needed = (prompt + output - 1 + block - 1) / block;
  CAUSEWAY_DCHECK(needed >= 1, "a prompt without KV");
  if (needed > frames) {
    return invalid_argument("the request's " + std::to_string(prompt) + " + " +
                            std::to_string(output) + " tokens need " + std::to_string(needed) +
                            " KV frames of " + std::to_string(block) + " tokens; there are " +
                            std::to_string(frames));
  }
  return {};
}

Result<CheckedRequest> CheckedRequest::check(request::Request request, const ModelFacts& facts,
                                             std::int64_t frames) {
  if (!request.id.valid()) return invalid_argument("the request has no id");
  CAUSEWAY_TRY(check_length(request, facts));
  CAUSEWAY_TRY(check_frames(request, facts, frames));
  CAUSEWAY_TRY(check_sampling(request.sampling));
  CAUSEWAY_TRY(check_edits(request, facts));
  if (may_end_by_form(request) && request.min_tokens > Tokens(0)) {
    return invalid_argument("min_tokens does not go with a form of the answer, which may end it");
  }
  if (request.pooling != request::Pooling::kNone && request.max_tokens != Tokens(1)) {
    return invalid_argument("a prompt that is embedded has an answer of one token");
  }
  CAUSEWAY_TRY(check_tokens(request, facts));
  return CheckedRequest(std::move(request));
}

}  // namespace causeway::engine
