// Words of several tokens that an output must not have, as a constraint: where the output ends with
// all tokens of a word but its last, that last one may not come next. What stands in the prompt
// does not count, as in vLLM.
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

// kInvalidArgument: no words, or one that is empty, too long or outside the vocabulary.
Result<std::shared_ptr<const Constraint>> ban_words(BannedWords banned);

// Of the text of such a constraint (ConstraintKind::kBannedWords), for another process. Any text
// may be given.
Result<BannedWords> parse_banned_words(std::string_view text);

}  // namespace causeway::request
