#include "grammar/plain_regex.h"

namespace causeway::grammar {
namespace {

constexpr std::string_view kSpaces = R"( \x09-\x0d)";

}  // namespace

std::string plain_regex(std::string_view text) {
  std::string out;
  bool in_class = false, negated = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      const char escaped = text[++at];
      if (escaped == 'S' && !in_class) {
        out += "[^" + std::string(kSpaces) + "]";
      } else if (escaped == 's' && in_class && negated) {
        out += kSpaces;
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      negated = at + 1 < text.size() && text[at + 1] == '^';
    }
    out += c;
  }
  return out;
}

}  // namespace causeway::grammar
