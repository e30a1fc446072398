// Words that are not to be generated: vLLM's `bad_words`.
#pragma once

#include "fleet/fleet.h"
#include "request/request.h"
#include "server/api/generation_request.h"

namespace causeway::server {

// Excludes each bad word, and the word with a space before it where that is another spelling of as
// many tokens: one of one token by a bias that nothing outweighs, another one by the request's
// constraint. Errors 400 name `bad_words`: a word that the model cannot write, too many of them, or
// no allowed token that is certainly left. After stop tokens and logit_bias were set.
MaybeError set_bad_words(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                         request::Request& request);

}  // namespace causeway::server
