// What the tokens of a model write, as a grammar sees them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "text/tokenizer.h"

namespace causeway::grammar {

// A model, as the compiler knows it. What it refers to outlives the call it is given to.
struct ModelTokens {
  ModelId model;
  const text::Tokenizer* tokenizer = nullptr;
  std::int64_t vocab = 0;        // rows of the logits
  std::span<const TokenId> end;  // tokens that end an answer: at least one
  // Special tokens that are text all the same: calls are marked with them.
  std::span<const std::string_view> marks = {};
};

struct TokenTable {
  std::vector<std::string> bytes;  // by id, `vocab` of them; "": special, written by no grammar
  std::vector<TokenId> end;
};

// kInvalidArgument: the model has no token that ends an answer.
Result<std::shared_ptr<const TokenTable>> make_token_table(const ModelTokens& model);

}  // namespace causeway::grammar
