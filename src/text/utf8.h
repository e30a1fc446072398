// UTF-8 by hand: where text stops being valid, one character at a time, one character out.
// Valid means Unicode 14, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the start of a byte string.
struct Utf8Unit {
  enum class Kind {
    kCharacter,   // `size` bytes are the character `code`
    kInvalid,     // `size` bytes, the longest beginning of a character, cannot be continued
    kIncomplete,  // all `size` bytes that there are begin a character
  };
  Kind kind = Kind::kCharacter;
  std::uint32_t size = 0;
  char32_t code = 0;
};

// The first unit of `text`, which must not be empty. `size` is at least 1.
Utf8Unit first_unit(std::string_view text);

// The offset of the first byte that is not part of a valid character, or none.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

// For text known to be valid: the bytes of the character that starts with `lead`.
inline std::size_t utf8_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// `code` must be a Unicode scalar value.
void append_utf8(char32_t code, std::string& out);

}  // namespace causeway::text
