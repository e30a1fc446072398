// The models of a tokenizer.json that look words up: WordLevel, a word a token, and WordPiece, the
// longest token that a word starts with, again and again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace causeway::text {

// Thread-safe after construction.
class WordLevelModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::optional<TokenId> unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}

  // kUnsupported when neither the word nor the unknown token is in the vocabulary, where the
  // library fails as well.
  Status encode_word(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  Vocabulary vocabulary_;
  std::optional<TokenId> unknown_;
};

struct WordPieceOptions {
  std::string prefix = "##";               // of pieces that continue a word
  std::int64_t word_characters_max = 100;  // longer words are unknown; at most kWordMax
  std::optional<TokenId> unknown;
};

// Thread-safe after construction.
class WordPieceModel {
 public:
  static constexpr std::int64_t kWordMax = 1000;  // bounds the time, quadratic in a word

  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
      : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

  // As WordLevelModel's.
  Status encode_word(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  // The longest piece that `rest` starts with; size 0: none.
  struct Found {
    TokenId id = -1;
    std::size_t size = 0;
  };
  Found longest(std::string_view rest, bool continues) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
};

}  // namespace causeway::text
