// The Unigram model of a tokenizer.json: of all ways to cut a word into pieces, the one with the
// highest sum of scores (Viterbi), as the `tokenizers` library finds it.
//
//   "▁hello" -> best path over the pieces that start at each character -> ids
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "text/bpe_vocabulary.h"

namespace causeway::text {

// All strings of a vocabulary that a text starts with, in one walk. Immutable.
//
//   nodes_  | root | children of the root | children of the first of them | ...   by breadth
class PieceTrie {
 public:
  explicit PieceTrie(const Vocabulary& vocabulary);

  // Calls visit(id, size) for each, the shortest first; the empty string is none.
  template <typename Visit>
  void each_prefix(std::string_view text, const Visit& visit) const {
    std::uint32_t at = 0;
    for (std::size_t depth = 0; depth < text.size(); ++depth) {
      at = child(at, static_cast<unsigned char>(text[depth]));
      if (at == 0) return;
      if (nodes_[at].id >= 0) visit(nodes_[at].id, depth + 1);
    }
  }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    TokenId id = -1;  // of the string that ends here
    std::uint16_t children = 0;
    unsigned char byte = 0;
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> of_root_{};
};

struct UnigramOptions {
  std::optional<TokenId> unknown;
  bool byte_fallback = false;  // what is unknown becomes its "<0xHH>" tokens
};

// Buffers of one encoding, kept from word to word.
struct UnigramScratch {
  struct Step {  // the best way to a place in the word ends with this piece
    double score = 0;
    std::int64_t begin = -1;  // -1: no way leads here
    TokenId id = -1;
  };
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool unknown = false;
  };
  std::vector<Step> steps;
  std::vector<Piece> pieces;
};

// Thread-safe after construction.
class UnigramModel {
 public:
  static constexpr std::size_t kPieceBytesMax = 1024;  // bounds the time per byte of text
  static constexpr std::size_t kAllBytesMax = std::size_t{16} << 20;  // bounds the trie

  // scores[id] belongs to the piece of that id; all are finite.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

  // Appends the ids of `word`, valid UTF-8, not empty. kUnsupported when a character has no piece
  // and the file no unknown token: there the library fails as well.
  Status encode_word(std::string_view word, UnigramScratch& scratch,
                     std::vector<TokenId>& ids) const;

  // No token stands for more bytes of a word, and each byte of a word is in a token; 0: unknown
  // characters, however many, are one token.
  std::size_t token_bytes_max() const { return token_bytes_max_; }

 private:
  Status find_best(std::string_view word, std::vector<UnigramScratch::Step>& steps) const;
  Status emit(std::string_view piece, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  PieceTrie trie_;
  double unknown_score_ = 0;
  std::array<TokenId, 256> fallback_ids_{};  // of "<0xHH>", -1: none
  std::size_t token_bytes_max_ = 0;
};

}  // namespace causeway::text
