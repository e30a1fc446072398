#include "base/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace causeway {
namespace {

// The largest doubles, and what they stand for.
constexpr std::string_view kInfinityStandIn = "1.7976931348623157e308";
constexpr std::string_view kNanStandIn = "1.7976931348623155e308";
constexpr double kInfinityValue = 1.7976931348623157e308;
constexpr double kNanValue = 1.7976931348623155e308;
// Every integer of so many digits fits 63 bits.
constexpr std::size_t kDigitsOfInt64 = 18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// What a number or a word is made of.
bool in_token(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.' || c == '_';
}

std::size_t digits_from(std::string_view token, std::size_t at) {
  while (at < token.size() && is_digit(token[at])) ++at;
  return at;
}

// A number as JSON writes it: where its integer part ends, or 0 when it is none.
std::size_t integer_part(std::string_view token) {
  const std::size_t first = token.starts_with('-') ? 1 : 0;
  const std::size_t whole = digits_from(token, first);
  if (whole == first || (token[first] == '0' && whole > first + 1)) return 0;
  std::size_t at = whole;
  if (at < token.size() && token[at] == '.') {
    const std::size_t fraction = digits_from(token, at + 1);
    if (fraction == at + 1) return 0;
    at = fraction;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    const std::size_t exponent = digits_from(token, at);
    if (exponent == at) return 0;
    at = exponent;
  }
  return at == token.size() ? whole : 0;
}

bool fits_64_bits(std::string_view integer) {
  const char* end = integer.data() + integer.size();
  std::int64_t number = 0;
  if (std::from_chars(integer.data(), end, number).ec == std::errc()) return true;
  std::uint64_t unsigned_number = 0;
  return !integer.starts_with('-') &&
         std::from_chars(integer.data(), end, unsigned_number).ec == std::errc();
}

// from_chars calls numbers out of range that are too small, too: those are 0 to every parser. The
// power of ten that the first digit counts tells which; no text is long enough to overflow it.
bool is_too_large(std::string_view number) {
  double value = 0;
  const char* end = number.data() + number.size();
  if (std::from_chars(number.data(), end, value).ec != std::errc::result_out_of_range) return false;
  const std::size_t whole = integer_part(number);
  const std::size_t e = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, e);
  const std::size_t digit = mantissa.find_first_of("123456789");
  if (digit == std::string_view::npos) return false;
  std::int64_t power = static_cast<std::int64_t>(whole) - static_cast<std::int64_t>(digit);
  if (e == std::string_view::npos) return power > 0;
  std::string_view exponent = number.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::int64_t shift = 0;
  const auto read = std::from_chars(exponent.data(), end, shift);
  if (read.ec == std::errc::result_out_of_range) return !exponent.starts_with('-');
  return power + std::clamp<std::int64_t>(shift, -(std::int64_t{1} << 60), std::int64_t{1} << 60) >
         0;
}

// Adds to `out` what replaces the token; false when the token may stay as it is.
bool append_plain(std::string_view token, std::string& out) {
  const bool negative = token.starts_with('-');
  if (token == "NaN" || token == "Infinity" || token == "-Infinity") {
    if (negative) out.push_back('-');
    out.append(token == "NaN" ? kNanStandIn : kInfinityStandIn);
    return true;
  }
  const std::size_t whole = integer_part(token);
  if (whole == 0) return false;
  if (is_too_large(token)) {
    if (negative) out.push_back('-');
    out.append(kInfinityStandIn);
    return true;
  }
  if (whole != token.size() || whole <= kDigitsOfInt64 || fits_64_bits(token)) return false;
  out.append(token).append("e0");
  return true;
}

std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return std::min(at + 1, json.size());
}

}  // namespace

std::string_view plain_json_numbers(std::string_view json, std::string& buffer) {
  buffer.clear();
  std::size_t kept = 0;  // bytes of `json` that are in `buffer` already
  for (std::size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      at = end_of_string(json, at);
      continue;
    }
    if (!in_token(json[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < json.size() && in_token(json[end])) ++end;
    std::string plain;
    if (append_plain(json.substr(at, end - at), plain)) {
      buffer.append(json.substr(kept, at - kept)).append(plain);
      kept = end;
    }
    at = end;
  }
  return kept == 0 ? json : std::string_view(buffer.append(json.substr(kept)));
}

double python_number(double number) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (number == kInfinityValue) return kInfinity;
  if (number == -kInfinityValue) return -kInfinity;
  return number == kNanValue ? std::nan("") : number;
}

std::string_view unusual_number_text(double number) {
  if (std::isnan(number)) return "NaN";
  return number < 0 ? "-Infinity" : "Infinity";
}

}  // namespace causeway
