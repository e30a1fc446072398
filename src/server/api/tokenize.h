// /tokenize and /detokenize, in vLLM's form: a text or a conversation to the tokens that a model
// would be given, and tokens to text.
//
//   {"model", "prompt", "add_special_tokens"}          → {"count", "max_model_len", "tokens"}
//   {"model", "messages", and what a template reads}   → the same
//   {"model", "tokens"}                                → {"prompt"}
//
// `model` may be left out where there is one model. Only the catalogue's tokenizer and template are
// read: a model's weights are not asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/fleet.h"
#include "server/api/generation_request.h"

namespace causeway::server {

struct TokenizeContext {
  const fleet::Fleet& fleet;
  const ApiLimits& limits;
  std::int64_t now_unix_seconds = 0;  // for templates that show the date
};

// The answer to a body, appended to `out`; on an error `out` is in an unspecified state. Any
// thread; takes time in proportion to the text. Errors: 400, and 404 for a model that is not there.
MaybeError answer_tokenize(std::string_view body, const TokenizeContext& context, std::string& out);
MaybeError answer_detokenize(std::string_view body, const TokenizeContext& context,
                             std::string& out);

}  // namespace causeway::server
