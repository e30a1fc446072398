#include "base/hex_digit.h"
#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

constexpr std::string_view kLetters = "\\'\"abfnrtv";
constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";

char32_t read_hex(std::string_view literal, std::size_t& at, int digits, int line) {
  char32_t value = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const int digit = at < literal.size() ? hex_digit(literal[at]) : -1;
    if (digit < 0) fail("an escape \\x, \\u or \\U in a string has too few digits", line);
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    fail("an escape in a string is not a Unicode character", line);
  }
  return value;
}

char32_t read_octal(std::string_view literal, std::size_t& at) {
  char32_t value = 0;
  for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i) {
    value = value * 8 + static_cast<char32_t>(literal[at++] - '0');
  }
  return value;
}

// The escape whose letter is at `at`, just after the backslash.
void append_escape(std::string& out, std::string_view literal, std::size_t& at, int line) {
  const char letter = literal[at];
  const std::size_t known = kLetters.find(letter);
  if (known != std::string_view::npos) {
    out.push_back(kMeanings[known]);
    ++at;
  } else if (letter == '\n') {
    ++at;
  } else if (letter >= '0' && letter <= '7') {
    append_code_point(out, read_octal(literal, at));
  } else if (letter == 'x' || letter == 'u' || letter == 'U') {
    ++at;
    append_code_point(out, read_hex(literal, at, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, line));
  } else if (letter == 'N') {
    fail("escapes by name (\\N) are not supported", line);
  } else {
    out.push_back('\\');
  }
}

}  // namespace

std::string unescape(std::string_view literal, int line) {
  std::string out;
  for (std::size_t at = 0; at < literal.size();) {
    const char c = literal[at++];
    if (c != '\\' || at == literal.size()) {
      out.push_back(c);
    } else {
      append_escape(out, literal, at, line);
    }
  }
  return out;
}

}  // namespace causeway::text::jinja
