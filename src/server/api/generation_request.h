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
  // Of the prompt tokens of all choices, the best beside each counted.
  std::int64_t prompt_logprobs_max = 1 << 18;
  std::size_t embedded_max = 2048;              // inputs
  std::int64_t embedded_numbers_max = 1 << 22;  // of the embeddings of one answer
  bool keep_alive = false;                      // how long its model stays
  bool chat_template = false;                   // instead of the model's
  bool keeps_responses = false;                 // those of /v1/responses that may be kept are
};

enum class Endpoint { kChat, kCompletions, kEmbeddings, kResponses };

// The JSON that a chat template reads; defined in chat_body.h, which holds the heavy header.
struct ChatBody;

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// How an answer is told: what is needed until its end. The rest of a request only prepare() reads.
struct AnswerOptions {
  Endpoint endpoint = Endpoint::kChat;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // each event tells the usage so far; with include_usage
  bool base64 = false;            // kEmbeddings
  std::int32_t n = 1;
  std::optional<std::int64_t> dimensions;  // kEmbeddings: the first; empty: all
  // How long its model is to stay after it has ended, where ApiLimits::keep_alive; below zero: for
  // ever.
  std::optional<Nanos> keep_alive;
};

struct GenerationRequest : AnswerOptions {
  GenerationRequest();
  GenerationRequest(GenerationRequest&&) noexcept;
  GenerationRequest& operator=(GenerationRequest&&) noexcept;
  ~GenerationRequest();
  // `echo` with `logprobs` tells those of the prompt, too.
  bool echoes_logprobs() const { return echo && top_logprobs >= 0; }
  // What the engine is asked for: request::SamplingParams::prompt_logprobs.
  std::int32_t prompt_top() const {
    return std::max(prompt_logprobs, echoes_logprobs() ? top_logprobs : -1);
  }
  bool echo_only() const { return max_tokens == 0; }
  // The field that the prompt comes from.
  std::string_view prompt_field() const {
    if (endpoint == Endpoint::kEmbeddings || endpoint == Endpoint::kResponses) return "input";
    return endpoint == Endpoint::kChat ? "messages" : "prompt";
  }
  // The answer is free text, but calls in it have a form.
  bool fences_calls() const {
    return !forces_call &&
           std::find(strict_tools.begin(), strict_tools.end(), true) != strict_tools.end();
  }
  // A template renders a conversation, and a message answers it.
  bool chats() const { return endpoint == Endpoint::kChat || endpoint == Endpoint::kResponses; }

  std::string model;

  // Empty: the model's default, else the API's.
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
  bool include_reasoning = true;        // it is told, beside the content
  bool calls_tools = false;  // the template is given tools, and calls are taken out of the text
  bool parallel_tool_calls = true;
  bool forces_call = false;  // with calls_tools: the answer is calls and nothing else
  std::string forced_tool;   // the one that is to be called; empty: any
  std::vector<bool> strict_tools;  // with calls_tools, of each: its arguments keep to its schema
  // What the answer must match, and the field that says so; with forces_call and fences_calls()
  // prepare() makes it.
  std::optional<request::ConstraintText> constraint;
  std::string constraint_field;
  std::int32_t priority = 0;  // as request::Request: larger runs first
  request::Pooling pooling = request::Pooling::kNone;  // kEmbeddings

  // kResponses. The answer is to be kept, and the conversation goes on from one that was: both
  // where ApiLimits::keeps_responses.
  bool store = false;
  std::string previous_response;  // an id, "resp_…"; empty: none
  // Members of its answer that say again what was asked for, as JSON:
  // "instructions":…,"metadata":…
  std::string response_echo;

  std::unique_ptr<ChatBody> chat;  // of one that chats()
  std::vector<Prompt> prompts;     // of the others
};

// Never throws. On an error `out` is in an unspecified state.
MaybeError parse_generation(Endpoint endpoint, std::string_view body, const ApiLimits& limits,
                            GenerationRequest& out);

}  // namespace causeway::server
