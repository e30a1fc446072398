// From a validated body to engine requests: template, tokens, limits and defaults of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fleet/fleet.h"
#include "request/request.h"
#include "server/api/choice.h"
#include "server/api/generation_request.h"
#include "server/api/slo_headers.h"

namespace causeway::server {

struct PrepareContext {
  std::uint64_t seed = 0;             // for requests that give none
  std::int64_t now_unix_seconds = 0;  // for templates that show the date
  SloHeaders slo;
  std::size_t echo_bytes_max = ApiLimits().echo_bytes_max;
  std::int64_t prompt_logprobs_max = ApiLimits().prompt_logprobs_max;
  std::int64_t embedded_numbers_max = ApiLimits().embedded_numbers_max;
};

// One engine request a choice, in the order of the answer's `index`: prompt by prompt, n each.
// The caller that submits them sets ids and arrival.
struct Prepared {
  const fleet::CatalogueEntry* model = nullptr;
  std::vector<request::Request> requests;
  std::int64_t prompt_tokens = 0;   // each prompt once
  std::vector<std::string> echoes;  // the text of each prompt, where it is to be told
  bool begins_reasoning = false;    // as EncodedPrompt has it
  // What the answers must match, to be compiled before the requests are submitted.
  std::optional<request::ConstraintText> constraint = {};

  AnswerFormats formats() const {
    return {.tool_calls = model->tool_calls,
            .reasoning = {.format = model->reasoning, .begun = begins_reasoning}};
  }
};

struct EncodedPrompt {
  std::vector<TokenId> tokens;
  std::int64_t count = 0;         // more than are in `tokens`: the prompt has at least so many
  bool begins_reasoning = false;  // it has the model think, and so the answer begins
  bool may_reason = false;        // nor does it say that there is no thinking
};

struct PromptOf {
  const GenerationRequest& asked;
  const fleet::CatalogueEntry& model;
  std::size_t index = 0;  // of the prompt; 0: a chat's only one
  std::int64_t now_unix_seconds = 0;
  // Whether a prompt that the model cannot take is wanted in whole. A text that would have many
  // times more tokens than the context is else encoded until that is known.
  bool whole = false;
};

MaybeError encode_prompt(const PromptOf& prompt, EncodedPrompt& out);

// An error that names `field` unless the model has this token.
MaybeError check_token(std::string_view field, std::int64_t id, const fleet::CatalogueEntry& model);

// Any thread; takes time in proportion to the prompt (rendering, tokenizing). Never throws.
MaybeError prepare(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                   const PrepareContext& context, Prepared& out);

}  // namespace causeway::server
