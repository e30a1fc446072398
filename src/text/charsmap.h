// The `precompiled_charsmap` of SentencePiece: which characters and clusters become what.
//
//   base64 -> | size of the trie, 32 bits | double array of 32-bit units | texts, each ends in 0 |
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::text {

// Immutable.
class Charsmap {
 public:
  // kCorrupt when it is no base64, shorter than it says, or its texts are no UTF-8.
  static Result<Charsmap> parse(std::string_view base64);
  // The same of the bytes that base64 would write.
  static Result<Charsmap> parse_bytes(std::string_view bytes);

  // Appends `text` (valid UTF-8) to `out`: grapheme clusters of fewer than 6 bytes are replaced as
  // a whole, characters of longer ones one by one. Stops once `out` exceeds `bytes_max`.
  void apply(std::string_view text, std::size_t bytes_max, std::string& out) const;

  struct Found {
    std::string_view text;  // what replaces the key
    std::size_t size = 0;   // of the key, in bytes
  };
  // The longest key that `text` starts with, or none: SentencePiece's own choice.
  std::optional<Found> longest(std::string_view text) const;

 private:
  // What replaces `part`, or none: the text of the shortest key that it starts with, as the
  // `tokenizers` library has it.
  std::optional<std::string_view> replacement(std::string_view part) const;
  // Calls visit(Found) for each key that `text` starts with, the shortest first, while it is true.
  template <typename Visit>
  void each_key(std::string_view text, const Visit& visit) const;
  void apply_cluster(std::string_view cluster, std::size_t bytes_max, std::string& out) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace causeway::text
