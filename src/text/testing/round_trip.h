// A tokenizer that must load, ids of a text that must have some, and the text of ids.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace causeway::text::testing {

// An error fails the test; then nullptr.
inline std::unique_ptr<Tokenizer> loaded(Result<std::unique_ptr<Tokenizer>> tokenizer) {
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

// The error of a file that must not load.
inline Error refusal_of(const Result<std::unique_ptr<Tokenizer>>& tokenizer,
                        std::string_view file) {
  if (tokenizer.ok()) ADD_FAILURE() << "loaded: " << file.substr(0, 200);
  return tokenizer.ok() ? Error{} : tokenizer.error();
}

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return ids.ok() ? *ids : std::vector<TokenId>();
}

inline std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                          bool skip_special = false) {
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id, skip_special);
  return text + detokenizer.finish();
}

}  // namespace causeway::text::testing
