// Words that are not to be generated: vLLM's `bad_words`, as far as a bias of single tokens can do
// it.
#pragma once

#include "fleet/fleet.h"
#include "request/request.h"
#include "server/api/generation_request.h"

namespace causeway::server {

// Excludes the token of each bad word, and that of the word with a space before it, by a bias that
// nothing outweighs. Errors 400 name `bad_words`: a word of several tokens (an exclusion would
// depend on the tokens before it), too many of them, or no allowed token left. After stop tokens
// and logit_bias were set.
MaybeError set_bad_words(const GenerationRequest& asked, const fleet::CatalogueEntry& model,
                         request::Request& request);

}  // namespace causeway::server
