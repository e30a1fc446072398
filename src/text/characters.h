// What single characters are, and texts changed character by character. Unicode 14.
#pragma once

#include <string>
#include <string_view>

#include "text/utf8.h"

namespace causeway::text {

// The Unicode property White_Space.
bool is_white_space(char32_t code);

// The character that ends before `end`; `end` > 0.
Utf8Unit last_unit(std::string_view text, std::size_t end);

// Where the white space before `end` begins, not before `at_least`; and where that from `begin`
// ends.
std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t at_least);
std::size_t white_space_end(std::string_view text, std::size_t begin);

enum class MarkKind { kAny, kNonSpacing };

// Each appends `text` (valid UTF-8) to `out`: without its combining marks; each character in lower
// case, whatever stands beside it; as BERT's normaliser has it, which drops control characters,
// makes white space a space and, for `chinese`, puts spaces around Chinese characters.
void append_without_marks(std::string_view text, MarkKind kind, std::string& out);
void append_lowercase(std::string_view text, std::string& out);
void append_bert_cleaned(std::string_view text, bool clean_text, bool chinese, std::string& out);

}  // namespace causeway::text
