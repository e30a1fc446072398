// The stages of a tokenizer.json around its model, read from the parsed file. Each reader refuses a
// component that it does not know with kUnsupported, naming it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pretokenize.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_normalize.h"
#include "text/tokenizer_table.h"

namespace causeway::text {

Result<Normalizer> read_normalizer(json::Element root);

// Sets `byte_level` when words are spelled byte by byte afterwards (ByteLevel, the last step).
Result<PreTokenizer> read_pre_tokenizer(json::Element root, bool& byte_level);

// What a vocabulary's content decodes to.
struct ContentDecoder {
  bool byte_level = false;                                    // undo the byte-level spelling
  bool byte_fallback = false;                                 // "<0xHH>" is that byte
  std::vector<std::pair<std::string, std::string>> replaces;  // in order
  LeadingSpace leading_space = LeadingSpace::kKept;
  std::optional<std::size_t> metaspace;  // which of `replaces` drops what it finds in a first token

  std::vector<TextReplacement> text_replaces;  // behind a Fuse, in the text as a whole
  std::string word_end;  // of a token that ends a word, and a space unless it ends the text

  // The tokens are words or pieces of words with spaces between them (WordPiece, or no decoder).
  struct Words {
    std::string prefix;    // of a token that continues a word; "": none does
    bool cleanup = false;  // no space before punctuation and English contractions
  };
  std::optional<Words> words;
  bool joins() const { return words.has_value(); }

  struct Decoded {
    std::string bytes;
    bool is_byte = false;  // of a fallback
  };
  // kCorrupt when replacements make the token absurdly long.
  Result<Decoded> decode(std::string_view content, bool first = false) const;
  // With `word_end`: of the token that ends a text.
  std::string decode_end(std::string_view content) const;
};

// Without a decoder a file gets `byte_level`, or, for `words`, a space between tokens.
Result<ContentDecoder> read_decoder(json::Element root, bool byte_level, bool words);

// Sets the prefix and suffix of `table`.
Status read_post_processor(json::Element root, TokenTable& table);

}  // namespace causeway::text
