#include "grammar/plain_regex.h"

#include <algorithm>

#include "grammar/char_class.h"

namespace causeway::grammar {
namespace {

constexpr std::string_view kAnything = R"([\s\S])";

std::string written_out(std::string_view char_class) {
  return class_text(read_class(char_class, 0)->codes);
}

// The class that begins at `at`, or what follows the '[' of one that cannot be read.
std::string plain_class(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  const auto found = read_class(text, at);
  if (found) {
    at = found->end;
    const std::string plain = found->plain ? "" : class_text(found->codes);
    return plain.empty() ? std::string(text.substr(begin, at - begin)) : plain;
  }
  while (at < text.size() && text[at] != ']') at += text[at] == '\\' ? 2 : 1;
  at = std::min(at + 1, text.size());
  return std::string(text.substr(begin, at - begin));
}

}  // namespace

std::string plain_regex(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[') {
      out += plain_class(text, at);
      continue;
    }
    const std::string_view next = text.substr(at, c == '\\' ? 2 : 1);
    if (next == ".") {
      out += written_out(kAnything);
    } else if (next == R"(\s)" || next == R"(\S)") {
      out += written_out("[" + std::string(next) + "]");
    } else {
      out += next;
    }
    at += next.size();
  }
  return out;
}

}  // namespace causeway::grammar
