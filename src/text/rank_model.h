// Byte-pair encoding by ranks: the model of tiktoken, and of what is made with it (Qwen v1,
// Tekken).
//
//   "hello" -> a token whole? its id : h e l l o -> the pair whose joined text has the lowest rank
//              becomes one, the leftmost of equals, again and again -> ids
//
// There is no list of merges: any two neighbours join whose joined bytes are a token.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "text/bpe_merge.h"
#include "text/bpe_vocabulary.h"

namespace causeway::text {

// Immutable.
class RankModel {
 public:
  // Longer tokens are refused by the readers of files: they bound the time per byte of text.
  static constexpr std::size_t kTokenBytesMax = 1024;

  // `words` has the tokens as raw bytes; the order of their ids is that of their ranks. kCorrupt
  // unless each of the 256 bytes is one.
  static Result<RankModel> build(Vocabulary words);

  // Appends the ids of `word`, not empty.
  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& ids) const;

  const Vocabulary& words() const { return words_; }
  // No token stands for more bytes of a word, and each byte of a word is in a token.
  std::size_t token_bytes_max() const { return words_.longest(); }

 private:
  explicit RankModel(Vocabulary words) : words_(std::move(words)) {}

  Vocabulary words_;
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace causeway::text
