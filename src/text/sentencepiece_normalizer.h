// What SentencePiece does to a text before it cuts it into pieces.
//
//   " Ａ  b" -> characters and clusters replaced ("A  b") -> extra spaces gone, one put in front
//            -> spaces as U+2581 ("▁A▁b")
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.h"
#include "text/tokenizer_added.h"

namespace causeway::text {

// Immutable.
class SentencePieceNormalizer {
 public:
  struct Options {
    std::optional<Charsmap> charsmap;  // empty: nothing is replaced
    bool remove_extra_whitespaces = false;
    std::vector<std::string> user_defined;  // pieces that stay as they are
  };
  explicit SentencePieceNormalizer(Options options);

  // Appends `text` (valid UTF-8, not empty) to `out`, which is empty; behind a mark when `prefix`.
  // kResourceExhausted when replacements make it longer than 256 MiB.
  Status apply(std::string_view text, bool prefix, std::string& out) const;

 private:
  struct Unit {
    std::string_view text;  // what it becomes
    std::size_t size = 0;   // what it takes of the input, in bytes
  };
  Unit next(std::string_view rest) const;

  std::optional<Charsmap> charsmap_;
  bool remove_extra_whitespaces_;
  PrefixSet user_defined_;
};

}  // namespace causeway::text
