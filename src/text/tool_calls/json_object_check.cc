#include "text/tool_calls/json_object_check.h"

#include <algorithm>
#include <string_view>

namespace causeway::text {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_json_digit(char c) { return c >= '0' && c <= '9'; }
bool is_json_hex(char c) {
  return is_json_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool in_scalar(char c) {
  return is_json_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
}

// Takes digits off the start; false when there are none.
bool take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_json_digit);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count > 0;
}

bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0' && is_json_digit(text[1])) return false;
  if (!take_digits(text)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (!take_digits(text)) return false;
  }
  return text.empty();
}

}  // namespace

JsonObjectCheck::Event JsonObjectCheck::push(char c) {
  if (string_ != String::kNone) return push_string(c);
  if (!scalar_.empty()) return push_scalar(c);
  return is_json_space(c) ? Event::kNone : push_structure(c);
}

JsonObjectCheck::Event JsonObjectCheck::push_string(char c) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr int kBehindBackslash = 5;
  if (escape_ == kBehindBackslash) {
    escape_ = c == 'u' ? 4 : 0;
    return c == 'u' || kEscapes.find(c) != std::string_view::npos ? Event::kNone : Event::kBroken;
  }
  if (escape_ > 0) {
    --escape_;
    return is_json_hex(c) ? Event::kNone : Event::kBroken;
  }
  if (static_cast<unsigned char>(c) < 0x20) return Event::kBroken;
  if (c == '\\') escape_ = kBehindBackslash;
  if (c != '"') return Event::kNone;
  const bool key = string_ == String::kKey;
  string_ = String::kNone;
  expect_ = key ? Expect::kColon : Expect::kCommaOrEnd;
  if (!outermost()) return Event::kNone;
  return key ? Event::kKeyEnd : Event::kValueEnd;
}

JsonObjectCheck::Event JsonObjectCheck::push_scalar(char c) {
  if (in_scalar(c)) {
    scalar_ += c;
    return scalar_.size() > kScalarBytesMax ? Event::kBroken : Event::kNone;
  }
  const bool good =
      scalar_ == "true" || scalar_ == "false" || scalar_ == "null" || is_number(scalar_);
  scalar_.clear();
  if (!good) return Event::kBroken;
  expect_ = Expect::kCommaOrEnd;
  return is_json_space(c) ? Event::kNone : push_structure(c);
}

JsonObjectCheck::Event JsonObjectCheck::push_structure(char c) {
  switch (expect_) {
    case Expect::kStart: return c == '{' ? open(c) : Event::kBroken;
    case Expect::kKeyOrEnd:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Expect::kKey: string_ = String::kKey; return c == '"' ? Event::kNone : Event::kBroken;
    case Expect::kColon: expect_ = Expect::kValue; return c == ':' ? Event::kNone : Event::kBroken;
    case Expect::kValueOrEnd:
      if (c == ']') return close(c);
      [[fallthrough]];
    case Expect::kValue: return begin_value(c);
    case Expect::kCommaOrEnd: return c == ',' ? comma() : close(c);
  }
  return Event::kBroken;
}

JsonObjectCheck::Event JsonObjectCheck::begin_value(char c) {
  const Event event = outermost() ? Event::kValueBegin : Event::kNone;
  if (c == '"') {
    string_ = String::kValue;
    return event;
  }
  if (c == '{' || c == '[') return open(c) == Event::kBroken ? Event::kBroken : event;
  if (c != '-' && !is_json_digit(c) && c != 't' && c != 'f' && c != 'n') return Event::kBroken;
  scalar_ = c;
  return event;
}

JsonObjectCheck::Event JsonObjectCheck::open(char c) {
  if (open_.size() == kDepthMax) return Event::kBroken;
  open_ += c;
  expect_ = c == '{' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  return Event::kNone;
}

JsonObjectCheck::Event JsonObjectCheck::close(char c) {
  if (c != (open_.back() == '{' ? '}' : ']')) return Event::kBroken;
  open_.pop_back();
  expect_ = Expect::kCommaOrEnd;
  if (open_.empty()) return Event::kDone;
  return outermost() ? Event::kValueEnd : Event::kNone;
}

JsonObjectCheck::Event JsonObjectCheck::comma() {
  expect_ = open_.back() == '{' ? Expect::kKey : Expect::kValue;
  return Event::kNone;
}

}  // namespace causeway::text
