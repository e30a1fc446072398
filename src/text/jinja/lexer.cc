#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/failure.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  Lexer(std::string_view source, std::deque<std::string>& strings)
      : source_(source), strings_(strings) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      read_data();
      if (at_ >= source_.size()) break;
      if (source_[at_ + 1] == '#') {
        read_comment();
      } else if (!read_raw()) {
        read_tag();
      }
    }
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
    if (bytes > 0) line_starting_ = source_[at_ - 1] == '\n';
  }
  void skip_space() {
    const std::string_view rest = source_.substr(at_);
    advance(rest.size() - strip_left(rest).size());
  }
  void push(TokenKind kind, std::string_view text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = text;
    tokens_.push_back(token);
  }

  // Where the next tag begins, or the end.
  std::size_t next_tag() const {
    for (std::size_t at = source_.find('{', at_); at != kNowhere; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') return at;
    }
    return source_.size();
  }

  // `text` stands before a tag whose sign is '-', '+' or something else.
  std::string_view trim_before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || variable) return text;
    const std::size_t line_end = text.rfind('\n');
    const std::size_t line_start = line_end == kNowhere ? 0 : line_end + 1;
    if (line_start == 0 && !line_starting_) return text;
    const bool blank = strip_left(text.substr(line_start)).empty();
    return blank ? text.substr(0, line_start) : text;
  }

  void read_data() {
    const std::size_t tag = next_tag();
    std::string_view text = source_.substr(at_, tag - at_);
    if (tag < source_.size()) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      text = trim_before_tag(text, sign, source_[tag + 1] == '{');
    }
    if (!text.empty()) push(TokenKind::kData, text);
    advance(tag - at_);
  }

  void skip_sign() {
    if (peek() == '-' || peek() == '+') advance(1);
  }
  // After the end of a block or comment: its "-" takes all white space, else one line break goes.
  void finish_block(bool minus, bool plus) {
    if (minus) {
      skip_space();
    } else if (!plus && peek() == '\n') {
      advance(1);
    }
  }

  void read_comment() {
    const int line = line_;
    advance(2);
    skip_sign();
    const std::size_t end = source_.find("#}", at_);
    if (end == kNowhere) fail("Missing end of comment tag", line);
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    finish_block(sign == '-', sign == '+');
  }

  // {% raw %} ... {% endraw %}; false when this is another tag.
  bool read_raw() {
    if (!starts("{%")) return false;
    const int line = line_;
    std::size_t at = at_ + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    std::string_view rest = strip_left(source_.substr(at));
    if (!rest.starts_with("raw")) return false;
    rest = strip_left(rest.substr(3));
    const bool minus = rest.starts_with("-%}");
    if (!minus && !rest.starts_with("%}")) return false;
    rest.remove_prefix(minus ? 3 : 2);
    advance(source_.size() - rest.size() - at_);
    if (minus) skip_space();
    read_raw_body(line);
    return true;
  }

  void read_raw_body(int line) {
    for (std::size_t tag = source_.find("{%", at_); tag != kNowhere;
         tag = source_.find("{%", tag + 2)) {
      std::size_t at = tag + 2;
      const char sign = at < source_.size() ? source_[at] : '\0';
      if (sign == '-' || sign == '+') ++at;
      std::string_view rest = strip_left(source_.substr(at));
      if (!rest.starts_with("endraw")) continue;
      rest = strip_left(rest.substr(6));
      const char end_sign = rest.empty() ? '\0' : rest[0];
      if (end_sign == '-' || end_sign == '+') rest.remove_prefix(1);
      if (!rest.starts_with("%}")) continue;
      const std::string_view text =
          trim_before_tag(source_.substr(at_, tag - at_), sign, /*variable=*/false);
      if (!text.empty()) push(TokenKind::kData, text);
      advance(source_.size() - rest.size() + 2 - at_);
      finish_block(end_sign == '-', end_sign == '+');
      return;
    }
    fail("Missing end of raw directive", line);
  }

  void read_tag() {
    const bool variable = source_[at_ + 1] == '{';
    push(variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, source_.substr(at_, 2));
    advance(2);
    skip_sign();
    brackets_.clear();
    while (true) {
      skip_space();
      if (at_ >= source_.size()) return;  // the parser reports what is missing
      if (brackets_.empty() && read_tag_end(variable)) return;
      read_expression_token();
    }
  }

  bool read_tag_end(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    const bool minus = peek() == '-';
    const bool plus = !variable && peek() == '+';
    const std::size_t sign = minus || plus ? 1 : 0;
    if (!source_.substr(at_ + sign).starts_with(end)) return false;
    push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, end);
    advance(sign + 2);
    if (variable) {
      if (minus) skip_space();
    } else {
      finish_block(minus, plus);
    }
    return true;
  }

  void read_expression_token() {
    const char c = peek();
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      std::size_t size = 1;
      while (is_name_part(peek(size))) ++size;
      push(TokenKind::kName, source_.substr(at_, size));
      return advance(size);
    }
    if (c == '\'' || c == '"') return read_string(c);
    read_operator();
  }

  void read_string(char quote) {
    std::size_t size = 1;
    while (at_ + size < source_.size() && peek(size) != quote) size += peek(size) == '\\' ? 2 : 1;
    if (at_ + size >= source_.size()) fail("a string is not closed", line_);
    const std::string_view content = source_.substr(at_ + 1, size - 1);
    if (content.find('\\') == kNowhere) {
      push(TokenKind::kString, content);
    } else {
      strings_.push_back(unescape(content, line_));
      push(TokenKind::kString, strings_.back());
    }
    advance(size + 1);
  }

  // The length of digits with single underscores between them, from `ahead`.
  template <typename IsDigit>
  std::size_t digits_end(std::size_t ahead, IsDigit is_digit_of) const {
    while (is_digit_of(peek(ahead)) || (peek(ahead) == '_' && is_digit_of(peek(ahead + 1))))
      ++ahead;
    return ahead;
  }

  void read_number() {
    const char letter = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
      const auto is_digit_of = [base](char c) {
        if (is_digit(c)) return c - '0' < base;
        return base == 16 && (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
      };
      const std::size_t end = digits_end(2, is_digit_of);
      if (end > 2) return push_integer(source_.substr(at_ + 2, end - 2), base, end);
    }
    std::size_t end = digits_end(0, is_digit);
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    bool real = false;
    if (!after_dot && peek(end) == '.' && is_digit(peek(end + 1))) {
      end = digits_end(end + 1, is_digit);
      real = true;
    }
    if (!after_dot && (peek(end) | 0x20) == 'e') {
      const std::size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
      if (is_digit(peek(end + 1 + sign))) {
        end = digits_end(end + 1 + sign, is_digit);
        real = true;
      }
    }
    if (!real) return push_integer(source_.substr(at_, end), 10, end);
    push_float(end);
  }

  void push_integer(std::string_view digits, int base, std::size_t size) {
    push(TokenKind::kInteger, source_.substr(at_, size));
    Int value = 0;
    for (const char c : digits) {
      if (c == '_') continue;
      const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{digit}, &value)) {
        fail("an integer does not fit 127 bits", line_);
      }
    }
    tokens_.back().integer = value;
    advance(size);
  }

  void push_float(std::size_t size) {
    push(TokenKind::kFloat, source_.substr(at_, size));
    std::string digits(source_.substr(at_, size));
    std::erase(digits, '_');
    const auto end =
        std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().number);
    if (end.ec != std::errc()) fail("a number is out of range: " + digits.substr(0, 40), line_);
    advance(size);
  }

  void read_operator() {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingle = "+-*/%~[](){}<>=.:|,;";
    std::size_t size = 0;
    for (const std::string_view op : kDouble) {
      if (starts(op)) size = 2;
    }
    const char c = peek();
    if (size == 0 && kSingle.find(c) != kNowhere) size = 1;
    if (size == 0) {
      const std::size_t bytes = code_point_at(source_, at_).bytes;
      fail("unexpected char '" + std::string(source_.substr(at_, bytes)) + "'", line_);
    }
    balance(c);
    push(TokenKind::kOperator, source_.substr(at_, size));
    advance(size);
  }

  // Within brackets "}}" and "%}" are operators.
  void balance(char c) {
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) fail(std::string("unexpected '") + c + "'", line_);
      if (brackets_.back() != c) {
        fail(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'", line_);
      }
      brackets_.pop_back();
    }
  }

  std::string_view source_;
  std::deque<std::string>& strings_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // nothing, or a line break, was read last
  std::string brackets_;       // the closing brackets awaited
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text.push_back(source[i]);
      continue;
    }
    text.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<Token> tokenize(std::string_view source, std::deque<std::string>& strings) {
  return Lexer(source, strings).run();
}

}  // namespace causeway::text::jinja
