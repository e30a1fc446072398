// Log-probabilities of a prompt's tokens in an answer: `echo` with `logprobs`, `prompt_logprobs`.
#pragma once

#include <string_view>
#include <vector>

#include "server/api/choice.h"
#include "text/tokenizer.h"

namespace causeway::server {

// Finds where each of a prompt's tokens begins in its text. Special tokens that are not part of the
// text have no extent.
std::vector<PlacedToken> place_prompt(const text::Tokenizer& tokenizer,
                                      std::vector<request::OutputToken> tokens,
                                      std::string_view text);

// Writes vLLM's form: null for the first token; for each other token an object of token ids with
// the token's own log-probability first and then the `top` best. Without the prompt's first token
// the list is left out.
void append_prompt_logprobs(std::string& out, const text::Tokenizer& tokenizer,
                            std::span<const PlacedToken> prompt, std::int32_t top);

}  // namespace causeway::server
