// What answers of several endpoints are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/api/choice.h"

namespace causeway::server {

// {"token":…,"logprob":…,"bytes":[…],"top_logprobs":[…]} of each, separated by commas. `as_ids`:
// tokens are spelt "token_id:5".
void append_scored_tokens(std::string& out, const text::Tokenizer& tokenizer, bool as_ids,
                          std::span<const PlacedToken> tokens);

// The id of a choice's call of a tool, in the form that the models of `format` know. `seed` decides
// it, together with the call's index.
std::string call_id(std::uint64_t seed, int call, text::ToolCallFormat format);

}  // namespace causeway::server
