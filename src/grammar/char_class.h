// Classes of characters in expressions, `[^é\s]`, and how XGrammar can be told of them.
//
// XGrammar 0.1.28 takes the numbers of a class that is not negated for bytes, and those of one that
// is negated for ASCII. So a class with other characters is written as what it is in UTF-8, byte by
// byte: [à-ü] as [\xc3][\xa0-\xbc].
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway::grammar {

// First and last of a range of characters.
using CodeRange = std::pair<char32_t, char32_t>;

struct CharClass {
  std::size_t end = 0;           // of its text
  std::vector<CodeRange> codes;  // what it matches: in order, apart, without surrogates
  bool plain = true;             // XGrammar reads its text as it is meant
};

// The class that begins at text[at], a '['. nullopt: it does not end, is empty, or has an escape
// that is not known: that is XGrammar's to tell.
std::optional<CharClass> read_class(std::string_view text, std::size_t at);

// An expression that matches one of these. "": there is none.
std::string class_text(const std::vector<CodeRange>& codes);

}  // namespace causeway::grammar
