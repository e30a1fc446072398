// What a Split or Replace of a tokenizer.json looks for: a literal or a regular expression.
//
// The expressions are written for Oniguruma (Ruby syntax) and run by PCRE2. Where the two differ,
// the expression is rewritten to mean what Oniguruma means, or refused: `\s` becomes White_Space,
// `\w` its Unicode definition, `\p{Han}` the script and not its extensions, `[a-z&&[^b]]` a class
// behind a look ahead; `\h`, `\b`, inline flags other than `i` and what else is unequal are
// kUnsupported.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::text {

// Bytes [begin, end) of a text.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Oniguruma's expression as PCRE2's; kUnsupported names the construct.
Result<std::string> pcre_from_oniguruma(std::string_view expression);

// Immutable: find_all may run in many threads at once.
class Pattern {
 public:
  static Pattern literal(std::string text);
  static Result<Pattern> regex(std::string_view oniguruma);

  // Appends all matches in `text` (valid UTF-8), left to right, not overlapping; empty ones too.
  // kResourceExhausted when the expression backtracks beyond its limit on this text.
  Status find_all(std::string_view text, std::vector<Range>& matches) const;

 private:
  struct Code {  // a compiled expression and its limits
    Code() = default;
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    ~Code();
    void* code = nullptr;     // pcre2_code
    void* context = nullptr;  // pcre2_match_context
  };

  Status find_all_regex(std::string_view text, std::vector<Range>& matches) const;

  std::string literal_;
  std::unique_ptr<Code> code_;  // null: a literal
};

}  // namespace causeway::text
