// Strings as templates see them: sequences of code points, stored as UTF-8. A byte that is not
// valid UTF-8 counts as one code point of its own (U+FFFD), so every function ends on any input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway::text::jinja {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
};

// The code point that starts at `text[at]`; at < text.size().
CodePoint code_point_at(std::string_view text, std::size_t at);
std::size_t code_point_count(std::string_view text);
// The byte offset of code point `index`; text.size() when there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t index);
void append_code_point(std::string& text, char32_t value);

// As Python's str: isspace, upper, lower, title, capitalize, and whether repr() shows it unescaped.
// Case mapping is one code point to one (utf8proc), but for "ß", whose upper case is "SS".
bool is_space(char32_t value);
bool is_cased(char32_t value);
bool is_printable(char32_t value);
bool is_word(char32_t value);  // a letter, digit or "_"
bool is_letter(char32_t value);
bool is_decimal(char32_t value);  // a decimal digit of any script
char32_t to_upper(char32_t value);
char32_t to_lower(char32_t value);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);

// Without the leading (trailing) code points that are in `characters`; data() == nullptr:
// whitespace.
std::string_view strip_left(std::string_view text, std::string_view characters = {});
std::string_view strip_right(std::string_view text, std::string_view characters = {});

// The offset of the first byte that is not valid UTF-8, or npos.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace causeway::text::jinja
