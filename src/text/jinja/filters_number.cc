#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

// How often a number's text is read, byte by byte.
constexpr std::size_t kReadings = 4;

// Without underscores where Python allows them (between digits); none when one is elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() &&
                         std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0;
    if (!between) return std::nullopt;
  }
  return out;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// Removes 0x, 0o, 0b where it fits the base, and resolves base 0.
void read_prefix(std::string_view& digits, int& base) {
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int prefix_base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix_base != 0 && (base == prefix_base || base == 0)) {
      base = prefix_base;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
}

// int(text, base)
std::optional<Int> parse_int(Heap& heap, std::string_view text, int base) {
  heap.require(text.size());
  heap.work_bytes(kReadings * text.size());
  const auto clean = without_underscores(strip_right(strip_left(text)));
  if (!clean) return std::nullopt;
  std::string_view digits = *clean;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  read_prefix(digits, base);
  if (digits.empty()) return std::nullopt;
  Int value = 0;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value)) {
      fail("an integer does not fit 127 bits");
    }
  }
  return negative ? -value : value;
}

// float(text)
std::optional<double> parse_float(Heap& heap, std::string_view text) {
  heap.require(text.size());
  heap.work_bytes(kReadings * text.size());
  auto clean = without_underscores(strip_right(strip_left(text)));
  if (!clean || clean->empty()) return std::nullopt;
  std::string_view number = *clean;
  const bool negative = number[0] == '-';
  if (number[0] == '-' || number[0] == '+') number.remove_prefix(1);
  if (number.empty() || number[0] == '-' || number[0] == '+') return std::nullopt;
  double value = 0;
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end.ptr != number.data() + number.size()) return std::nullopt;
  if (end.ec == std::errc::result_out_of_range) {
    // Too large or too small: which of both says strtod, whose results are then exact.
    value = std::strtod(std::string(number).c_str(), nullptr);
  } else if (end.ec != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<Int> int_of_double(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) >= 0x1p126) fail("an integer does not fit 127 bits");
  return static_cast<Int>(value);
}

Value to_int(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("int", arguments, {"default", "base"});
  const Value fallback = bound[0].is_missing() ? Value::integer(0) : bound[0];
  const Int base = int_argument(bound[1], 10, "int");
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  require_defined(subject);
  std::optional<Int> result;
  if (subject.is_integral()) return Value::integer(subject.as_int());
  if (subject.is(Kind::kFloat)) {
    result = int_of_double(subject.as_double());
  } else if (subject.is_string()) {
    result = parse_int(heap, subject.text(), static_cast<int>(base));
    if (!result) {
      const auto number = parse_float(heap, subject.text());
      if (number) result = int_of_double(*number);
    }
  }
  return result ? Value::integer(*result) : fallback;
}

Value to_float(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("float", arguments, {"default"});
  require_defined(subject);
  if (subject.is_numeric()) return Value::number(subject.as_double());
  if (subject.is_string()) {
    const auto number = parse_float(heap, subject.text());
    if (number) return Value::number(*number);
  }
  return bound[0].is_missing() ? Value::number(0) : bound[0];
}

Value absolute(Heap&, const Value& subject, const Arguments& arguments) {
  bind("abs", arguments, {});
  require_defined(subject);
  if (subject.is(Kind::kFloat)) return Value::number(std::fabs(subject.as_double()));
  if (!subject.is_integral()) {
    fail("bad operand type for abs(): '" + std::string(type_name(subject)) + "'");
  }
  return subject.as_int() < 0 ? negate(subject, Op::kNeg) : Value::integer(subject.as_int());
}

// Python rounds the exact decimal value, ties to even: what printf does as well.
double round_common(double value, int precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::isfinite(unit) ? std::nearbyint(value / unit) * unit : 0.0;
  }
  char buffer[700];
  std::snprintf(buffer, sizeof(buffer), "%.*f", precision, value);
  return std::strtod(buffer, nullptr);
}

Value round_number(Heap&, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("round", arguments, {"precision", "method"});
  const Int precision = int_argument(bound[0], 0, "round");
  const std::string_view method =
      bound[1].is_missing() ? std::string_view("common") : text_argument(bound[1], "round");
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("method must be common, ceil or floor");
  }
  require_defined(subject);
  if (!subject.is_numeric()) {
    fail("type " + std::string(type_name(subject)) + " doesn't define __round__ method");
  }
  if (precision < -400 || precision > 400) fail("round: the precision is beyond 400");
  const auto places = static_cast<int>(precision);
  if (method == "common") {
    if (subject.is_integral() && places >= 0) return Value::integer(subject.as_int());
    const double rounded = round_common(subject.as_double(), places);
    return subject.is_integral() ? Value::integer(int_of_double(rounded).value_or(0))
                                 : Value::number(rounded);
  }
  const double unit = std::pow(10.0, places);
  const double scaled = subject.as_double() * unit;
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value sum(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("sum", arguments, {"attribute", "start"});
  Value total = bound[1].is_missing() ? Value::integer(0) : bound[1];
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  const bool by_attribute = !bound[0].is_missing() && !bound[0].is_none();
  for (const Value& item : elements(heap, subject).items) {
    heap.step();
    total = arithmetic(heap, Op::kAdd, total,
                       by_attribute ? attribute_path(heap, item, bound[0]) : item);
  }
  return total;
}

Value filesizeformat(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("filesizeformat", arguments, {"binary"});
  require_defined(subject);
  std::optional<double> number;
  if (subject.is_numeric()) number = subject.as_double();
  if (subject.is_string()) number = parse_float(heap, subject.text());
  if (!number) fail("filesizeformat needs a number, not " + std::string(type_name(subject)));
  const bool binary = flag_argument(bound[0], false);
  const double base = binary ? 1024 : 1000;
  if (*number == 1) return Value::view("1 Byte");
  if (*number < base) {
    const auto whole = int_of_double(*number);
    if (!whole) fail("filesizeformat: the number is out of range");
    return heap.string(int_text(*whole) + " Bytes");
  }
  // As powers the last decimal ones would not be the nearest doubles.
  constexpr double kDecimal[] = {1e6, 1e9, 1e12, 1e15, 1e18, 1e21, 1e24, 1e27};
  int i = 0;
  const auto unit = [&] { return binary ? std::ldexp(1.0, 10 * (i + 2)) : kDecimal[i]; };
  // The double 1e24 is less than the integer.
  while (i < 7 && !(*number < unit()) && !(i == 6 && !binary && *number == 1e24)) ++i;
  char text[400];
  std::snprintf(text, sizeof(text), "%.1f %c%sB", base * *number / unit(),
                (binary ? "KMGTPEZY" : "kMGTPEZY")[i], binary ? "i" : "");
  return heap.string(text);
}

constexpr std::array<FilterEntry, 6> kNumberFilters = {{
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round_number},
    {"sum", sum},
    {"filesizeformat", filesizeformat},
}};

}  // namespace

std::span<const FilterEntry> number_filters() { return kNumberFilters; }

}  // namespace causeway::text::jinja
