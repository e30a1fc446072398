// What a client asks of a model, and what comes back: plain data that all rooms above share and
// that can cross a process boundary (no pointers, no handles; a constraint crosses as its text).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "request/slo.h"

namespace causeway::request {

// How the next token is chosen. Defaults: the OpenAI API's.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy
  float top_p = 1.0f;               // (0, 1]
  std::int32_t top_k = 0;           // 0: all
  float min_p = 0.0f;               // [0, 1]; 0: off
  float presence_penalty = 0.0f;    // [-2, 2]
  float frequency_penalty = 0.0f;   // [-2, 2]
  float repetition_penalty = 1.0f;  // > 0; 1: off
  std::uint64_t seed = 0;           // with the position it decides the draw: reproducible
  std::int32_t top_logprobs = -1;  // -1: no logprobs; n: the chosen token's and the n best (≤ 20)
  // The same for the prompt's tokens after the first, each by the model's prediction at its place.
  std::int32_t prompt_logprobs = -1;

  bool greedy() const { return temperature == 0.0f; }
  bool penalised() const {
    return presence_penalty != 0.0f || frequency_penalty != 0.0f || repetition_penalty != 1.0f;
  }
};

struct TokenBias {
  TokenId token = 0;
  float bias = 0.0f;
};

// The hidden states after the final norm that are wanted of a prompt instead of an answer.
enum class Pooling : std::uint8_t {
  kNone,
  kLast,  // of its last token
  kMean,  // of all its tokens
};

class Constraint;  // constraint.h

// The largest values of top_logprobs and prompt_logprobs.
inline constexpr std::int32_t kTopLogprobsMax = 20;
// The most tokens that logit_bias and allowed_tokens may name, each.
inline constexpr std::int64_t kEditedTokensMax = 1024;
// The most RotationTimes that an output has.
inline constexpr std::int64_t kRotationTimesMax = 64;

struct Request {
  RequestId id;
  ModelId model;
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  Tokens max_tokens{16};                // ≥ 1; prompt + max_tokens ≤ the model's context
  std::vector<TokenId> stop_tokens;     // ends with FinishReason::kStop; the token is not output
  Tokens min_tokens{0};                 // ≤ max_tokens: before that many no stop token is chosen
  std::vector<TokenBias> logit_bias;    // finite, added to the logits; each token once
  std::vector<TokenId> allowed_tokens;  // no other is chosen; empty: all are allowed
  // What the output must match; null: anything. Shared by the choices of a prompt.
  std::shared_ptr<const Constraint> constraint;
  // With max_tokens 1: Output::embedding comes with the only token.
  Pooling pooling = Pooling::kNone;
  Slo slo;
  std::int32_t priority = 0;  // larger runs first (policy `priority`)
  Nanos arrival;              // by the engine's clock
  // Set when the request continues after its slice was lost: the output that was delivered, fewer
  // tokens than max_tokens. The answer goes on after them; they count as output, and are not output
  // again.
  std::vector<TokenId> output = {};
  std::int32_t attempt = 0;  // how often it was sent again; its outputs carry it
  Nanos held = {};           // time in the fleet until its model served; copied to its outputs
};

enum class FinishReason {
  kStop,       // a stop token
  kLength,     // max_tokens
  kCancelled,  // cancel(): disconnect, stop string found, shutdown
  kError,      // the step or the model failed; Output::error says why
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0f;
};

struct OutputToken {
  TokenId token = 0;
  float logprob = 0.0f;           // natural log; set when logprobs were asked for
  std::vector<TokenLogprob> top;  // the best, descending
};

// A model whose weights had to come to the device before its answer.
struct ModelSwitch {
  Bytes missing;    // of what a step needs, when a request asked for it
  Nanos predicted;  // for bringing them, at the rate of the link
  Nanos took;       // from that request to the model's first token
};

// When a request's KV was in host memory, counted from its arrival.
struct RotationTimes {
  Nanos out;     // it gave up its place on the device
  Nanos in{-1};  // it came back, or was given up; negative: not yet
};

// One piece of a request's answer. Exactly one Output of a request has finished = true: the last.
struct Output {
  RequestId request;
  std::vector<OutputToken> tokens;
  // Log-probabilities of the prompt's tokens after the first, when prompt_logprobs asks for them:
  // all of them come with the first output after the prompt is computed.
  std::vector<OutputToken> prompt = {};
  std::vector<float> embedding = {};  // [hidden], as Request::pooling asks; with the last output
  bool finished = false;
  FinishReason reason = FinishReason::kStop;
  std::string error;                    // for kError
  ErrorCode code = ErrorCode::kDevice;  // of that error
  Tokens cached_prompt{0};              // prompt tokens found in the prefix cache
  Nanos queued{-1};                     // from arrival to its first step; negative: it never began
  std::int32_t preemptions = 0;         // how often it was preempted so far
  // Parts of that time: in the fleet until the model served, and then on a slice until enough of
  // the model's weights were on the device.
  Nanos held = {};
  Nanos weights = {};
  // The rotations that have ended since the output before, kRotationTimesMax at most; the last
  // output also has one that has not ended.
  std::vector<RotationTimes> rotations = {};
  std::optional<ModelSwitch> switched;  // with the model's first token
  std::int32_t attempt = 0;             // the request's
  // For kError: the slice was lost or hangs, so the request failed with it, and can continue
  // elsewhere.
  bool lost = false;
};

}  // namespace causeway::request
