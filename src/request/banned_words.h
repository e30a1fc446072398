// Words of several tokens that an output must not contain, as a constraint: where the output ends
// with all tokens of a word but the last, that last token may not come next. Words in the prompt do
// not count, as in vLLM.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "request/constraint.h"

namespace causeway::request {

struct BannedWords {
  std::int64_t vocab = 0;                   // rows of the model's logits
  std::vector<std::vector<TokenId>> words;  // each of 1 to 1024 tokens of the vocabulary

  bool operator==(const BannedWords&) const = default;
};

// kInvalidArgument when there are no words, or one is empty, too long or outside the vocabulary.
Result<std::shared_ptr<const Constraint>> ban_words(BannedWords banned);

// Parses the text of such a constraint (ConstraintKind::kBannedWords), for another process. Accepts
// any text.
Result<BannedWords> parse_banned_words(std::string_view text);

}  // namespace causeway::request
