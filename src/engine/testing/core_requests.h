// The model and the requests of EngineCore's tests.
#pragma once

#include "engine/engine_core.h"

namespace causeway::engine {

inline constexpr ModelId kModel(1);
inline const ModelFacts kFacts{
    .tokens_per_block = Tokens(4), .max_model_len = Tokens(64), .vocab = 2000};

// The prompt is the tokens 0, 1, 2 …
inline request::Request make_request(std::int64_t id, std::size_t prompt, std::int64_t output) {
  request::Request request;
  request.id = RequestId(id);
  request.model = kModel;
  for (std::size_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<TokenId>(i));
  request.max_tokens = Tokens(output);
  return request;
}

}  // namespace causeway::engine
