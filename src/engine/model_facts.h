// What an engine must know of a model to accept, schedule and refuse its requests.
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "request/request.h"

namespace causeway::engine {

struct ModelFacts {
  Tokens tokens_per_block;  // kv::BlockLayout::tokens
  Tokens max_model_len;     // prompt and output together
  std::int64_t vocab = 0;   // prompt token ids must lie below; 0: not checked
};

// Whether the request could ever run on an engine with `frames` frames. kInvalidArgument says, with
// the numbers, why not.
Status check_request(const request::Request& request, const ModelFacts& facts, std::int64_t frames);

}  // namespace causeway::engine
