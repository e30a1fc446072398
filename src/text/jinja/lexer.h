// Splits template source into tokens, with Jinja's rules for white space as transformers sets them:
// trim_blocks (a line break right after a block or comment goes), lstrip_blocks (white space before
// a block or comment on its line goes), "-" and "+" in tags, one line break at the end of the
// source dropped, line breaks made "\n".
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace causeway::text::jinja {

enum class TokenKind : std::uint8_t {
  kData,           // text: literal output
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,    // text: the unescaped content
  kInteger,   // integer
  kFloat,     // number
  kOperator,  // text: as written
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string_view text;
  Int integer = 0;
  double number = 0;
};

// "\r\n" and "\r" become "\n"; one line break at the end goes.
std::string normalize_source(std::string_view source);

// Tokens are views of `source` (normalized) and of what is added to `strings`; both must outlive
// them. Throws Failure with the line. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source, std::deque<std::string>& strings);

// The content of a string literal with its escapes resolved as Python does.
std::string unescape(std::string_view literal, int line);

}  // namespace causeway::text::jinja
