// What a body of /v1/chat/completions, /v1/completions, /v1/responses or /v1/embeddings asks for,
// validated as far as that is possible without the model: prepare.h does the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "request/constraint.h"
#include "request/request.h"
#include "server/api/api_error.h"
#include "server/api/json_scan.h"

namespace causeway::server {

// The limits of one request.
struct ApiLimits {
  JsonScanLimits json = {};
  int choices_max = 128;  // prompts × n
  std::size_t stop_strings_max = 16;
  std::size_t stop_string_bytes_max = 256;
  std::size_t stop_tokens_max = 64;
  std::size_t edited_tokens_max = request::kEditedTokensMax;  // of logit_bias, allowed_token_ids
  std::size_t bad_words_max = 256;
  std::size_t form_choices_max = 1024;  // of `choice`
  std::size_t tools_max = 128;
  std::size_t tool_name_bytes_max = 128;
  std::size_t tokenize_bytes_max = std::size_t{64} << 20;  // of an answer of /tokenize
  std::size_t echo_bytes_max = std::size_t{16} << 20;      // of prompts told again, all choices
  // Over the prompt tokens of all choices, counting the best tokens of each.
  std::int64_t prompt_logprobs_max = 1 << 18;
  std::size_t embedded_max = 2048;              // inputs
  std::int64_t embedded_numbers_max = 1 << 22;  // of the embeddings of one answer
  bool keep_alive = false;                      // requests may say how long their model stays
  bool chat_template = false;    // requests may bring a template instead of the model's
  bool keeps_responses = false;  // answers of /v1/responses are kept if they may be
};

enum class Endpoint { kChat, kCompletions, kEmbeddings, kResponses };

// The JSON that a chat template reads; defined in chat_body.h, which holds the heavy header.
struct ChatBody;

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// How an answer is written; needed until its end. Only prepare() reads the rest of a request.
struct AnswerOptions {
  Endpoint endpoint = Endpoint::kChat;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // with include_usage: each event has the usage so far
  bool base64 = false;            // kEmbeddings
  std::int32_t n = 1;
  std::optional<std::int64_t> dimensions;  // kEmbeddings: the first; empty: all
  // How long the model should stay after the answer has ended, if ApiLimits::keep_alive; below
  // zero: for ever.
  std::optional<Nanos> keep_alive;
};

struct GenerationRequest : AnswerOptions {
  GenerationRequest();
  GenerationRequest(GenerationRequest&&) noexcept;
  GenerationRequest& operator=(GenerationRequest&&) noexcept;
  ~GenerationRequest();
  // With `echo`, `logprobs` includes those of the prompt.
  bool echoes_logprobs() const { return echo && top_logprobs >= 0; }
  // The value for request::SamplingParams::prompt_logprobs.
  std::int32_t prompt_top() const {
    return std::max(prompt_logprobs, echoes_logprobs() ? top_logprobs : -1);
  }
  bool echo_only() const { return max_tokens == 0; }
  // The field that the prompt comes from.
  std::string_view prompt_field() const {
    if (endpoint == Endpoint::kEmbeddings || endpoint == Endpoint::kResponses) return "input";
    return endpoint == Endpoint::kChat ? "messages" : "prompt";
  }
  // Whether the answer is free text in which calls have a form.
  bool fences_calls() const {
    return !forces_call &&
           std::find(strict_tools.begin(), strict_tools.end(), true) != strict_tools.end();
  }
  // Whether a template renders a conversation, and a message answers it.
  bool chats() const { return endpoint == Endpoint::kChat || endpoint == Endpoint::kResponses; }

  std::string model;

  // Empty: the model's default or, without one, the API's.
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> max_tokens;  // 0: of kCompletions with `echo`, the prompt alone
  std::int32_t top_logprobs = -1;          // -1: no logprobs
  std::int32_t prompt_logprobs = -1;       // likewise, of the prompt as vLLM tells them
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  std::int64_t min_tokens = 0;
  std::vector<std::pair<std::int64_t, float>> logit_bias;  // each token once
  std::vector<std::int64_t> allowed_token_ids;             // empty: all
  std::vector<std::string> bad_words;                      // none of them is to be generated
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // log-probabilities spell tokens as "token_id:5"
  bool echo = false;           // kCompletions: the prompt's text begins the answer's
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool include_stop_in_output = false;
  std::optional<bool> add_special_tokens;
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the answer goes on where the last message ends
  bool include_reasoning = true;        // the answer has `reasoning_content` beside the content
  bool calls_tools = false;  // the template gets tools, and calls are taken out of the text
  bool parallel_tool_calls = true;
  bool forces_call = false;  // with calls_tools: the answer consists of calls only
  std::string forced_tool;   // the tool that must be called; empty: any
  std::vector<bool> strict_tools;  // with calls_tools: whether a tool's arguments match its schema
  // What the answer must match, and the field that asks for it. With forces_call and
  // fences_calls() prepare() makes it.
  std::optional<request::ConstraintText> constraint;
  std::string constraint_field;
  std::int32_t priority = 0;  // as request::Request: larger runs first
  request::Pooling pooling = request::Pooling::kNone;  // kEmbeddings

  // For kResponses, if ApiLimits::keeps_responses: whether the answer is kept; and the id of the
  // kept answer that the conversation continues.
  bool store = false;
  std::string previous_response;  // "resp_…"; empty: none
  // JSON members of the answer that repeat the request: "instructions":…,"metadata":…
  std::string response_echo;

  std::unique_ptr<ChatBody> chat;  // for endpoints that chat
  std::vector<Prompt> prompts;     // for the other endpoints
};

// Never throws. On an error `out` is in an unspecified state.
MaybeError parse_generation(Endpoint endpoint, std::string_view body, const ApiLimits& limits,
                            GenerationRequest& out);

}  // namespace causeway::server
