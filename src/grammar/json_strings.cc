#include "grammar/json_strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "grammar/plain_regex.h"

namespace causeway::grammar {
namespace {

using OrderedJson = nlohmann::ordered_json;  // the order of properties is that of the answer

constexpr std::array<std::string_view, 3> kData = {"enum", "const", "default"};
constexpr std::uint32_t kCodeMax = 0x10FFFF;
using Range = std::pair<std::uint32_t, std::uint32_t>;

// Inside of a class that is negated: what no string of JSON has, or only escaped.
constexpr std::string_view kEscaped = R"("\\\x00-\x1f\x7f)";
constexpr std::array<Range, 4> kHoles = {{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}};

// The parts of a range that are none of these.
void append_safe(Range range, std::vector<Range>& out) {
  std::uint32_t low = range.first;
  for (const auto& [first, last] : kHoles) {
    if (last < low || first > range.second) continue;
    if (first > low) out.emplace_back(low, first - 1);
    low = last + 1;
  }
  if (low <= range.second) out.emplace_back(low, range.second);
}

std::string code_text(std::uint32_t code) {
  std::array<char, 8> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), code, 16).ptr;
  return "\\u{" + std::string(digits.data(), end) + "}";
}

// A class of what is left of the ranges; "" when nothing is.
std::string class_of(const std::vector<Range>& ranges) {
  std::vector<Range> safe;
  for (const Range& range : ranges) append_safe(range, safe);
  std::string out;
  for (const auto& [first, last] : safe) {
    out += code_text(first);
    if (last > first) out += "-" + code_text(last);
  }
  return out.empty() ? out : "[" + out + "]";
}

std::string none_of(std::string_view inner) {
  return "[^" + std::string(inner) + std::string(kEscaped) + "]";
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : text_(pattern) {}

  std::string rewrite() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && at_ + 1 < text_.size()) {
        escape();
      } else if (c == '[') {
        char_class();
      } else {
        if (c == '.') {
          out_ += none_of("");
        } else if (c == '"') {
          out_ += R"((\\"))";
        } else {
          out_ += c;
        }
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    const char c = text_[at_ + 1];
    switch (c) {
      case 's': out_ += "[ ]"; break;
      case 'S': out_ += none_of(" "); break;
      case 'D': out_ += none_of("0-9"); break;
      case 'W': out_ += none_of("a-zA-Z0-9_"); break;
      case '"': out_ += R"((\\"))"; break;
      case '\\': out_ += R"((\\\\))"; break;
      case 'n':
      case 'r':
      case 't':
      case 'f': out_ += std::string(R"((\\)") + c + ")"; break;
      default: out_ += text_.substr(at_, 2);
    }
    at_ += 2;
  }

  void char_class() {
    const std::size_t begin = at_;
    std::size_t end = at_ + 1;
    if (end < text_.size() && text_[end] == '^') ++end;
    while (end < text_.size() && text_[end] != ']') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) {  // it never ends: the compiler says so
      out_ += text_.substr(begin);
      at_ = text_.size();
      return;
    }
    const std::string_view inner = text_.substr(begin + 1, end - begin - 1);
    at_ = end + 1;
    if (!inner.empty() && inner[0] == '^') {
      out_ += none_of(inner.substr(1));
      return;
    }
    const std::string rewritten = class_of(ranges_of(inner));
    out_ += rewritten.empty() ? std::string(text_.substr(begin, at_ - begin)) : rewritten;
  }

  // What the inside of a class lists.
  static std::vector<Range> ranges_of(std::string_view inner) {
    std::vector<Range> ranges;
    std::size_t at = 0;
    while (at < inner.size()) {
      if (shorthand(inner, at, ranges)) continue;
      const std::uint32_t low = code_at(inner, at);
      const bool spans = at + 1 < inner.size() && inner[at] == '-';
      std::uint32_t high = low;
      if (spans) {
        ++at;
        high = code_at(inner, at);
      }
      ranges.emplace_back(low, high);
    }
    return ranges;
  }

  static bool shorthand(std::string_view inner, std::size_t& at, std::vector<Range>& out) {
    if (inner[at] != '\\' || at + 1 >= inner.size()) return false;
    switch (inner[at + 1]) {
      case 'd': out.emplace_back('0', '9'); break;
      case 's': out.emplace_back(' ', ' '); break;
      case 'w': out.insert(out.end(), {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); break;
      case 'D': out.insert(out.end(), {{0, '0' - 1}, {'9' + 1, kCodeMax}}); break;
      case 'S': out.emplace_back('!', kCodeMax); break;
      case 'W':
        out.insert(out.end(), {{0, '0' - 1}, {':', '@'}, {'[', '^'}, {'`', '`'}, {'{', kCodeMax}});
        break;
      default: return false;
    }
    at += 2;
    return true;
  }

  // One character, escaped or not; `at` goes behind it.
  static std::uint32_t code_at(std::string_view text, std::size_t& at) {
    if (text[at] == '\\' && at + 1 < text.size()) return escaped_code_at(text, at);
    const auto lead = static_cast<unsigned char>(text[at++]);
    std::uint32_t code = lead;
    const int more = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (more > 0) code = lead & (0x3Fu >> more);
    for (int i = 0; i < more && at < text.size(); ++i) {
      code = code << 6 | (static_cast<unsigned char>(text[at++]) & 0x3Fu);
    }
    return std::min(code, kCodeMax);
  }

  static std::uint32_t escaped_code_at(std::string_view text, std::size_t& at) {
    const char c = text[at + 1];
    at += 2;
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'f': return '\f';
      case 'v': return '\v';
      case '0': return 0;
      default: break;
    }
    if (c != 'x' && c != 'u') return static_cast<unsigned char>(c);
    const bool braced = at < text.size() && text[at] == '{';
    if (braced) ++at;
    const std::size_t most = braced ? 6 : c == 'x' ? 2 : 4;
    const char* const begin = text.data() + at;
    std::uint32_t code = 0;
    const auto [end, failure] =
        std::from_chars(begin, begin + std::min(most, text.size() - at), code, 16);
    at += static_cast<std::size_t>(end - begin);
    if (braced && at < text.size() && text[at] == '}') ++at;
    return failure == std::errc() ? std::min(code, kCodeMax) : 0;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

// As the schema has it; "" where it bounds nothing.
std::string bound(const OrderedJson& node, const char* key) {
  const auto at = node.find(key);
  if (at == node.end() || !at->is_number_unsigned()) return {};
  return std::to_string(at->get<std::uint64_t>());
}

void rewrite_lengths(OrderedJson& node) {
  const std::string least = bound(node, "minLength"), most = bound(node, "maxLength");
  if ((least.empty() && most.empty()) || node.contains("format")) return;
  node.erase("minLength");
  node.erase("maxLength");
  node["pattern"] = "^" + none_of("") + "{" + (least.empty() ? "0" : least) + "," + most + "}$";
}

void rewrite(OrderedJson& node) {
  if (node.is_array()) {
    for (OrderedJson& item : node) rewrite(item);
  }
  if (!node.is_object()) return;
  for (const auto& [key, value] : node.items()) {
    if (std::find(kData.begin(), kData.end(), key) == kData.end()) rewrite(value);
  }
  const auto pattern = node.find("pattern");
  if (pattern == node.end()) return rewrite_lengths(node);
  if (!pattern->is_string()) return;  // a property of this name
  *pattern = plain_regex(json_pattern(pattern->get_ref<const std::string&>()));
}

}  // namespace

std::string json_pattern(std::string_view pattern) { return Rewriter(pattern).rewrite(); }

std::string with_json_strings(const std::string& json) {
  OrderedJson schema = OrderedJson::parse(json, nullptr, /*allow_exceptions=*/false);
  rewrite(schema);
  return schema.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace causeway::grammar
