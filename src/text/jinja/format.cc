// Python's two ways of string formatting: "%s" % x and "{}".format(x).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/failure.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

struct Spec {
  bool left = false, zero = false, plus = false, space = false;
  int width = 0;
  int precision = -1;
  bool escape = false;  // of markup: what becomes text is escaped
};

constexpr int kWidthMax = 1000;

int read_number(std::string_view format, std::size_t& at) {
  int number = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
    number = number * 10 + (format[at] - '0');
    if (number > kWidthMax) fail("a format's width or precision is more than 1000");
  }
  return number;
}

Spec read_spec(std::string_view format, std::size_t& at) {
  Spec spec;
  for (; at < format.size(); ++at) {
    if (format[at] == '-') {
      spec.left = true;
    } else if (format[at] == '0') {
      spec.zero = true;
    } else if (format[at] == '+') {
      spec.plus = true;
    } else if (format[at] == ' ') {
      spec.space = true;
    } else {
      break;
    }
  }
  spec.width = read_number(format, at);
  if (at < format.size() && format[at] == '.') {
    ++at;
    spec.precision = read_number(format, at);
  }
  return spec;
}

void append_padded(Builder& out, const Spec& spec, std::string_view text, bool number) {
  const auto count = static_cast<int>(std::min<std::size_t>(code_point_count(text), kWidthMax));
  const std::string padding(static_cast<std::size_t>(std::max(0, spec.width - count)),
                            spec.zero && number && !spec.left ? '0' : ' ');
  if (spec.left) {
    out.append(text);
    out.append(padding);
    return;
  }
  const bool sign_first = !padding.empty() && padding[0] == '0' && !text.empty() &&
                          (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  if (sign_first) out.append(text.substr(0, 1));
  out.append(padding);
  out.append(sign_first ? text.substr(1) : text);
}

std::string with_sign(const Spec& spec, std::string text) {
  if (!text.empty() && text[0] == '-') return text;
  if (spec.plus) return "+" + text;
  return spec.space ? " " + text : text;
}

std::string float_format(const Spec& spec, char letter, double value) {
  char pattern[] = "%.*f";
  pattern[3] = letter;
  char buffer[1400];
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const int size = std::snprintf(buffer, sizeof(buffer), pattern, precision, value);
  return std::string(buffer, static_cast<std::size_t>(std::clamp(size, 0, 1399)));
}

std::string hex_text(Int value, bool upper_case) {
  std::string digits;
  auto rest = static_cast<unsigned __int128>(value < 0 ? -value : value);
  do {
    digits.push_back((upper_case ? "0123456789ABCDEF" : "0123456789abcdef")[rest & 15]);
    rest >>= 4;
  } while (rest != 0);
  if (value < 0) digits.push_back('-');
  return {digits.rbegin(), digits.rend()};
}

Int whole_number(const Value& value, char letter) {
  if (value.is_integral()) return value.as_int();
  if (value.is(Kind::kFloat) && std::fabs(value.as_double()) < 1e37) {
    return static_cast<Int>(value.as_double());
  }
  fail(std::string("%") + letter + " format: a number is required, not " +
       std::string(type_name(value)));
}

void append_conversion(Heap& heap, Builder& out, const Spec& spec, char letter,
                       const Value& value) {
  switch (letter) {
    case 's':
    case 'r': {
      Builder text(heap);
      letter == 's' ? append_string(text, value) : append_repr(text, value);
      std::string whole = text.take();
      if (spec.escape && !(letter == 's' && value.is_markup())) {
        whole = std::string(escaped(heap, Value::view(whole)).text());
      }
      if (spec.precision >= 0) {
        whole.resize(byte_offset(whole, static_cast<std::size_t>(spec.precision)));
      }
      return append_padded(out, spec, whole, false);
    }
    case 'd':
    case 'i':
    case 'u':
      return append_padded(out, spec, with_sign(spec, int_text(whole_number(value, letter))), true);
    case 'x':
    case 'X':
      return append_padded(out, spec, hex_text(whole_number(value, letter), letter == 'X'), true);
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
      if (!value.is_numeric()) fail("must be real number, not " + std::string(type_name(value)));
      return append_padded(out, spec,
                           with_sign(spec, float_format(spec, letter, value.as_double())), true);
    default: fail(std::string("unsupported format character '") + letter + "'");
  }
}

}  // namespace

namespace {

// What Python takes for a mapping of which a format may use nothing.
bool has_elements_by_key(const Value& value) {
  if (value.is(Kind::kList)) {
    return value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kRange;
  }
  return value.is(Kind::kDict) || value.is(Kind::kBytes) || value.is_undefined();
}

}  // namespace

Value format_percent(Heap& heap, const Value& pattern, const Value& values) {
  const std::string_view format = pattern.text();
  const bool tuple = values.is(Kind::kList) && values.as_list().kind == ListKind::kTuple;
  const std::vector<Value> arguments = tuple ? values.as_list().items : std::vector<Value>{values};
  std::size_t used = 0;
  Builder out(heap);
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t percent = std::min(format.find('%', at), format.size());
    out.append(format.substr(at, percent - at));
    if (percent == format.size()) break;
    at = percent + 1;
    heap.step();
    Value value;
    bool named = false;
    if (at < format.size() && format[at] == '(') {
      const std::size_t close = format.find(')', at);
      if (close == std::string_view::npos) fail("incomplete format key");
      if (!values.is(Kind::kDict)) fail("format requires a mapping");
      value = get_item(heap, values, Value::view(format.substr(at + 1, close - at - 1)));
      require_defined(value);
      named = true;
      at = close + 1;
    }
    Spec spec = read_spec(format, at);
    spec.escape = pattern.is_markup();
    if (at == format.size()) fail("incomplete format");
    const char letter = format[at++];
    if (letter == '%') {
      out.push('%');
      continue;
    }
    if (!named) {
      if (used == arguments.size()) fail("not enough arguments for format string");
      value = arguments[used++];
    }
    append_conversion(heap, out, spec, letter, value);
  }
  if (used < arguments.size() && !has_elements_by_key(values)) {
    fail("not all arguments converted during string formatting");
  }
  const Value text = out.finish();
  return pattern.is_markup() ? text.as_markup() : text;
}

namespace {

// The value that a field {name}, {0} or {} means, with .attribute and [key] after it.
Value field_value(Heap& heap, std::string_view field, const Arguments& arguments,
                  std::size_t& next_number) {
  const std::size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view name = field.substr(0, end);
  if (end < field.size()) fail("str.format: attributes and elements in a field are not supported");
  const bool number =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number) {
    for (const auto& [key, value] : arguments.named) {
      if (key == name) return value;
    }
    fail("str.format: there is no argument '" + std::string(name) + "'");
  }
  std::size_t at = 0;
  const std::size_t index =
      name.empty() ? next_number++ : static_cast<std::size_t>(read_number(name, at));
  heap.step();
  if (index >= arguments.positional.size()) {
    fail("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
  }
  return arguments.positional[index];
}

// True when the value is markup, and so needs no escaping.
bool append_field(Heap& heap, Builder& out, std::string_view field, const Arguments& arguments,
                  std::size_t& next_number) {
  const std::size_t colon = field.find(':');
  const Value value = field_value(heap, field.substr(0, colon), arguments, next_number);
  if (colon == std::string_view::npos || colon + 1 == field.size()) {
    append_string(out, value);
    return value.is_markup();
  }
  if (value.is_markup()) fail("Unsupported format specification for Markup.");
  std::string_view rest = field.substr(colon + 1);
  Spec spec;
  spec.left = !value.is_numeric();
  if (rest[0] == '<' || rest[0] == '>') {
    spec.left = rest[0] == '<';
    rest.remove_prefix(1);
  }
  std::size_t at = 0;
  const bool left = spec.left;
  spec = read_spec(rest, at);
  spec.left = left;
  const char letter = at < rest.size() ? rest[at++] : (value.is_integral() ? 'd' : 's');
  if (at != rest.size()) fail("str.format: unsupported format '" + std::string(rest) + "'");
  append_conversion(heap, out, spec, letter, value);
  return false;
}

}  // namespace

Value format_braces(Heap& heap, const Value& pattern, const Arguments& arguments) {
  const std::string_view format = pattern.text();
  Builder out(heap);
  std::size_t next_number = 0;
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t brace = std::min(format.find_first_of("{}", at), format.size());
    out.append(format.substr(at, brace - at));
    if (brace == format.size()) break;
    at = brace + 1;
    if (at < format.size() && format[at] == format[brace]) {
      out.push(format[at++]);
      continue;
    }
    if (format[brace] == '}') fail("Single '}' encountered in format string");
    const std::size_t close = format.find('}', at);
    if (close == std::string_view::npos) fail("expected '}' before end of string");
    const std::string_view field = format.substr(at, close - at);
    if (pattern.is_markup()) {
      Builder text(heap);
      const bool markup = append_field(heap, text, field, arguments, next_number);
      const Value formatted = text.finish();
      out.append(escaped(heap, markup ? formatted.as_markup() : formatted).text());
    } else {
      append_field(heap, out, field, arguments, next_number);
    }
    at = close + 1;
  }
  const Value text = out.finish();
  return pattern.is_markup() ? text.as_markup() : text;
}

}  // namespace causeway::text::jinja
