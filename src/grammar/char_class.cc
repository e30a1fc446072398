#include "grammar/char_class.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/hex_digit.h"
#include "text/utf8.h"

namespace causeway::grammar {
namespace {

using Ranges = std::vector<CodeRange>;

constexpr char32_t kLastAscii = 0x7F;
constexpr char32_t kLastCode = 0x10FFFF;
constexpr CodeRange kSurrogates = {0xD800, 0xDFFF};

// ASCII's white space: U+00A0 is a character as others are.
const Ranges kSpaces = {{'\t', '\r'}, {' ', ' '}};
const Ranges kDigits = {{'0', '9'}};
const Ranges kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

Ranges in_order(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  for (const CodeRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, range.second);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

// What is from `first` to `last` and in none of `ranges`, which are in order.
Ranges others(const Ranges& ranges, char32_t first, char32_t last) {
  Ranges out;
  for (const CodeRange& range : ranges) {
    if (range.second < first) continue;
    if (range.first > last) break;
    if (range.first > first) out.emplace_back(first, range.first - 1);
    first = range.second + 1;
  }
  if (first <= last) out.emplace_back(first, last);
  return out;
}

// Reads the inside of a class.
class ClassReader {
 public:
  ClassReader(std::string_view text, std::size_t at) : text_(text), at_(at + 1) {}

  std::optional<CharClass> read() {
    const bool negated = peek('^');
    if (negated) ++at_;
    Ranges ranges;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (!read_item(ranges)) return std::nullopt;
    }
    if (at_ >= text_.size() || ranges.empty()) return std::nullopt;
    ranges = in_order(std::move(ranges));
    if (ranges.back().second > kLastAscii) plain_ = false;
    Ranges missing = negated ? std::move(ranges) : others(ranges, 0, kLastCode);
    missing.push_back(kSurrogates);
    return CharClass{at_ + 1, others(in_order(std::move(missing)), 0, kLastCode), plain_};
  }

 private:
  bool peek(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool read_item(Ranges& out) {
    if (text_[at_] == '\\' && read_shorthand(out)) return !is_dash();
    const auto first = read_code();
    if (!first) return false;
    if (!is_dash()) {
      out.emplace_back(*first, *first);
      return true;
    }
    ++at_;
    if (text_[at_] == '\\' && at_ + 1 < text_.size() && is_shorthand(text_[at_ + 1])) return false;
    const auto last = read_code();
    if (!last || *last < *first) return false;
    out.emplace_back(*first, *last);
    return true;
  }

  // A '-' between two characters.
  bool is_dash() const { return peek('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']'; }

  static bool is_shorthand(char c) {
    return std::string_view("dDwWsS").find(c) != std::string_view::npos;
  }

  bool read_shorthand(Ranges& out) {
    if (at_ + 1 >= text_.size() || !is_shorthand(text_[at_ + 1])) return false;
    const char c = text_[at_ + 1];
    at_ += 2;
    const char lower = static_cast<char>(c | 0x20);
    const Ranges& meant = lower == 'd' ? kDigits : lower == 'w' ? kWords : kSpaces;
    if (c != 'd' && c != 'w') plain_ = false;
    const Ranges said = c == lower ? meant : others(meant, 0, kLastCode);
    out.insert(out.end(), said.begin(), said.end());
    return true;
  }

  std::optional<char32_t> read_code() {
    if (text_[at_] == '\\') return read_escape();
    const text::Utf8Unit unit = text::first_unit(text_.substr(at_));
    if (unit.kind != text::Utf8Unit::Kind::kCharacter) return std::nullopt;
    at_ += unit.size;
    return unit.code;
  }

  std::optional<char32_t> read_escape() {
    if (at_ + 1 >= text_.size()) return std::nullopt;
    const char c = text_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'a': return U'\a';
      case 'b': return U'\b';
      case 'e': return U'\x1B';
      case 'f': return U'\f';
      case 'n': return U'\n';
      case 'r': return U'\r';
      case 't': return U'\t';
      case 'v': return U'\v';
      case '0': return U'\0';
      case 'x': return read_digits(2);
      case 'u': return peek('{') ? read_braced() : read_digits(4);
      case 'U': return read_digits(8);
      default: break;
    }
    constexpr std::string_view kThemselves = "^$.*+?\\()[]{}|/-'\"";
    if (kThemselves.find(c) == std::string_view::npos) return std::nullopt;
    return static_cast<char32_t>(c);
  }

  std::optional<char32_t> read_digits(int count) {
    plain_ = false;  // XGrammar takes any number of digits behind \x
    char32_t code = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const int digit = at_ < text_.size() ? hex_digit(text_[at_]) : -1;
      if (digit < 0) return std::nullopt;
      code = code * 16 + static_cast<char32_t>(digit);
    }
    return code <= kLastCode ? std::optional(code) : std::nullopt;
  }

  std::optional<char32_t> read_braced() {
    const std::size_t end = text_.find('}', at_);
    if (end == std::string_view::npos || end - at_ < 2 || end - at_ > 7) return std::nullopt;
    ++at_;
    const auto code = read_digits(static_cast<int>(end - at_));
    ++at_;
    return code;
  }

  std::string_view text_;
  std::size_t at_;
  bool plain_ = true;
};

std::string number(char32_t code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  return std::string("\\u00") + kHex[code / 16 % 16] + kHex[code % 16];
}

std::string numbers(CodeRange range) {
  if (range.first == range.second) return number(range.first);
  return number(range.first) + "-" + number(range.second);
}

// Whether XGrammar, which writes the class anew, ends it with a number: digits behind it would be
// taken for its own.
bool ends_in_number(CodeRange range) {
  const char32_t code = range.second;
  const bool named = code == 0 || (code >= '\a' && code <= '\r') || code == 0x1B;
  return code == kLastAscii || (code < ' ' && !named);
}

// The inside of a class. None begins with '^', which would negate it.
std::string ascii_items(const Ranges& ranges) {
  std::string first, middle, last, caret;
  for (CodeRange range : ranges) {
    if (range.first == '^') {
      caret = number('^');
      if (range.second == '^') continue;
      range.first = '_';
    }
    std::string& place = !ends_in_number(range) ? first : range.first >= ' ' ? middle : last;
    place += numbers(range);
  }
  return first.empty() && !caret.empty() ? middle + last + caret : first + caret + middle + last;
}

// A byte, or one of a range. XGrammar takes a class of a single number for a character.
std::string byte_class(std::uint8_t first, std::uint8_t last) {
  return "[" + (first == last ? number(first) + number(first) : numbers({first, last})) + "]";
}

// Adds the bytes of a range of characters that have `size` bytes each.
void add_bytes(CodeRange range, int size, const std::string& before, int depth,
               std::vector<std::string>& out) {
  const int bits = 6 * (size - 1);
  const char32_t lead = depth == 0 ? (size == 1   ? 0
                                      : size == 2 ? 0xC0
                                      : size == 3 ? 0xE0
                                                  : 0xF0)
                                   : 0x80;
  const auto byte_of = [&](char32_t code) {
    return static_cast<std::uint8_t>(lead | (code >> bits));
  };
  if (size == 1) {
    out.push_back(before + byte_class(byte_of(range.first), byte_of(range.second)));
    return;
  }
  const char32_t rest = (char32_t{1} << bits) - 1;
  char32_t low = range.first;
  while (low <= range.second) {
    // Either one first byte with a part of what may follow, or several with all of it.
    char32_t high = std::min<char32_t>(range.second, low | rest);
    const bool whole = (low & rest) == 0 && high == (low | rest);
    if (whole) high = ((range.second + 1) & ~rest) - 1;
    const std::string next = before + byte_class(byte_of(low), byte_of(high));
    add_bytes(whole ? CodeRange{0, rest} : CodeRange{low & rest, high & rest}, size - 1, next,
              depth + 1, out);
    low = high + 1;
  }
}

constexpr std::array<std::pair<CodeRange, int>, 3> kSizes = {
    {{{0x80, 0x7FF}, 2}, {{0x800, 0xFFFF}, 3}, {{0x10000, kLastCode}, 4}}};

std::vector<std::string> utf8_parts(const Ranges& ranges) {
  std::vector<std::string> parts;
  for (const CodeRange& range : ranges) {
    for (const auto& [bounds, size] : kSizes) {
      const CodeRange part = {std::max(range.first, bounds.first),
                              std::min(range.second, bounds.second)};
      if (part.first <= part.second) add_bytes(part, size, "", 0, parts);
    }
  }
  return parts;
}

}  // namespace

std::optional<CharClass> read_class(std::string_view text, std::size_t at) {
  return ClassReader(text, at).read();
}

std::string class_text(const Ranges& codes) {
  const Ranges missing = others(codes, 0, kLastCode);
  const Ranges ascii = others(missing, 0, kLastAscii);
  const bool all_beyond = std::all_of(missing.begin(), missing.end(), [](const CodeRange& range) {
    return range.second <= kLastAscii || range == kSurrogates;
  });
  if (all_beyond) {
    // No answer has U+0000.
    const Ranges left_out = others(ascii, 0, kLastAscii);
    return "[^" + (left_out.empty() ? number(0) : ascii_items(left_out)) + "]";
  }
  std::vector<std::string> parts = utf8_parts(others(missing, kLastAscii + 1, kLastCode));
  if (!parts.empty()) {
    // A choice of parts, one of which has a choice in its midst, keeps XGrammar from drawing them
    // into rules with large repetitions, where it follows no bytes.
    const std::size_t last = parts[0].rfind('[');
    const std::string byte = parts[0].substr(last);
    parts[0] = parts[0].substr(0, last) + "(" + byte + "|" + byte + ")";
    if (parts.size() == 1 && ascii.empty()) parts.push_back(parts[0]);
  }
  const bool one = ascii.size() == 1 && ascii[0].first == ascii[0].second;
  if (one) {
    parts.push_back(number(ascii[0].first));
  } else if (!ascii.empty()) {
    parts.push_back("[" + ascii_items(ascii) + "]");
  }
  if (parts.size() == 1 && !one) return parts[0];
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "(" : "|") + part;
  return out.empty() ? out : out + ")";
}

}  // namespace causeway::grammar
