// The unigram model of a tokenizer.model: of all ways to cut a text into pieces the one with the
// highest sum of scores, as the sentencepiece library finds it.
//
// Sums are floats over the whole text, as there (version 0.2.3): their rounding decides between
// ways that are equally good. (unigram_model.h is the same of a tokenizer.json, whose library
// differs.)
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "text/sentencepiece_model.h"
#include "text/unigram_model.h"

namespace causeway::text {

// Immutable.
class SentencePieceUnigram {
 public:
  // kUnsupported when the pieces are more than UnigramModel::kAllBytesMax bytes, all together.
  static Result<SentencePieceUnigram> build(const SentencePieceModel& model);

  // Appends the ids of `text`, spaces written as marks, valid UTF-8, not empty.
  void encode(std::string_view text, std::vector<TokenId>& ids) const;

  // As UnigramModel has it.
  std::size_t token_bytes_max() const { return byte_ids_.empty() ? 0 : longest_; }

 private:
  // The best way to a place in the text ends with this piece.
  struct Step {
    float score = 0;
    TokenId id = -1;
    std::int64_t begin = -1;  // -1: no way leads here
  };

  SentencePieceUnigram(const Vocabulary& words, std::vector<float> scores)
      : trie_(words),
        scores_(std::move(scores)),
        longest_(std::max<std::size_t>(1, words.longest())) {}
  void find_best(std::string_view text, std::vector<Step>& steps) const;

  PieceTrie trie_;
  std::vector<float> scores_;      // by id; of a user-defined piece it depends on its length
  std::size_t longest_;            // in bytes
  std::vector<TokenId> byte_ids_;  // of the 256 bytes, or none: no fallback
  float unknown_score_ = 0;
  TokenId unknown_ = 0;
};

}  // namespace causeway::text
