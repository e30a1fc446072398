// Log-probabilities of a prompt's tokens in an answer: `echo` with `logprobs`, `prompt_logprobs`.
#pragma once

#include <string_view>
#include <vector>

#include "server/api/choice.h"
#include "text/tokenizer.h"

namespace causeway::server {

// Where each of a prompt's tokens begins in its text. Special tokens that the text does not show
// have no extent.
std::vector<PlacedToken> place_prompt(const text::Tokenizer& tokenizer,
                                      std::vector<request::OutputToken> tokens,
                                      std::string_view text);

// vLLM's form: null for the first token, for the others an object of token ids that has the token's
// own log-probability first, then the `top` best. Without the first of a prompt there is no list.
void append_prompt_logprobs(std::string& out, const text::Tokenizer& tokenizer,
                            std::span<const PlacedToken> prompt, std::int32_t top);

}  // namespace causeway::server
