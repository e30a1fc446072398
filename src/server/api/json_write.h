// JSON written straight into a string: no tree, one allocation at most. For answers, where a tree a
// token would cost more than the token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace causeway::server {

// Appends `text` in quotes, escaped. Bytes that are not UTF-8 become U+FFFD, so that what comes out
// is JSON whatever goes in.
void append_json_string(std::string& out, std::string_view text);

void append_json_integer(std::string& out, std::int64_t value);
// JSON has no infinity: -inf, as a log-probability of what cannot be, is -9999.0, and so is NaN.
void append_json_logprob(std::string& out, float value);

// A token's text in quotes. A part of a character is spelt by its bytes, "bytes:\xe2", so that
// different tokens are different strings.
void append_json_token(std::string& out, std::string_view bytes);

// The longest beginning of `text` of at most `bytes_max` bytes that does not cut a character.
std::string utf8_prefix(std::string_view text, std::size_t bytes_max);

// Characters in `text`: bytes that do not continue one.
std::int64_t utf8_characters(std::string_view text);

// Bytes that are not UTF-8 replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace causeway::server
