// The arithmetic half of operators.h.
#include <cmath>
#include <limits>

#include "text/jinja/failure.h"
#include "text/jinja/markup.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {
namespace {

std::string_view sign_of(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSub: return "-";
    case Op::kMul: return "*";
    case Op::kDiv: return "/";
    case Op::kFloorDiv: return "//";
    case Op::kMod: return "%";
    default: return "** or pow()";
  }
}

[[noreturn]] void fail_overflow() { fail("an integer result does not fit 127 bits"); }

Int floor_divide(Int a, Int b) {
  if (b == -1) {
    Int negated = 0;
    if (__builtin_sub_overflow(Int{0}, a, &negated)) fail_overflow();
    return negated;
  }
  const Int quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Int floor_modulo(Int a, Int b) {
  if (b == -1) return 0;
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  if ((rest < 0) != (b < 0)) rest += b;
  return rest;
}

Int power(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    fail("a negative number cannot be raised to a fractional power");
  }
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    fail("a power is too large for a float");
  }
  return Value::number(result);
}

Value int_arithmetic(Op op, Int a, Int b) {
  Int result = 0;
  const bool divides = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod;
  if (divides && b == 0) fail("division by zero");
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::kDiv: return Value::number(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDiv: return Value::integer(floor_divide(a, b));
    case Op::kMod: return Value::integer(floor_modulo(a, b));
    default:
      if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
      return Value::integer(power(a, b));
  }
}

Value float_arithmetic(Op op, double a, double b) {
  const bool divides = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod;
  if (divides && b == 0) fail("float division by zero");
  switch (op) {
    case Op::kAdd: return Value::number(a + b);
    case Op::kSub: return Value::number(a - b);
    case Op::kMul: return Value::number(a * b);
    case Op::kDiv: return Value::number(a / b);
    case Op::kFloorDiv: return Value::number(std::floor((a - float_modulo(a, b)) / b + 0.5));
    case Op::kMod: return Value::number(float_modulo(a, b));
    default: return float_power(a, b);
  }
}

bool is_sequence(const Value& value) {
  return value.is(Kind::kList) &&
         (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple);
}

bool can_be_repeated(const Value& value) {
  return value.is_string() || value.is(Kind::kBytes) || is_sequence(value);
}

Value concatenate(Heap& heap, const List& a, const List& b) {
  heap.require((a.items.size() + b.items.size()) * sizeof(Value));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return heap.list(std::move(items), a.kind);
}

// The number of repetitions, so that `size` of each stay within the heap's bounds.
std::size_t repetitions(Heap& heap, Int count, std::size_t size) {
  if (count <= 0 || size == 0) return 0;
  if (count > std::numeric_limits<std::int32_t>::max()) {
    heap.require(std::numeric_limits<std::int64_t>::max());
  }
  const auto times = static_cast<std::size_t>(count);
  heap.require(times * size);
  heap.work_bytes(times * size);
  return times;
}

Value repeat(Heap& heap, const Value& value, Int count) {
  if (value.is_string() || value.is(Kind::kBytes)) {
    const std::size_t times = repetitions(heap, count, value.text().size());
    std::string text;
    text.reserve(times * value.text().size());
    for (std::size_t i = 0; i < times; ++i) text += value.text();
    const Value repeated = heap.string(std::move(text));
    if (value.is(Kind::kBytes)) return Value::bytes(repeated);
    return value.is_markup() ? repeated.as_markup() : repeated;
  }
  const List& list = value.as_list();
  const std::size_t times = repetitions(heap, count, list.items.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(times * list.items.size());
  for (std::size_t i = 0; i < times; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return heap.list(std::move(items), list.kind);
}

Value concatenate_text(Heap& heap, std::string_view a, std::string_view b) {
  heap.require(a.size() + b.size());
  std::string text;
  text.reserve(a.size() + b.size());
  text.append(a).append(b);
  return heap.string(std::move(text));
}

Value add_strings(Heap& heap, const Value& a, const Value& b) {
  if (!a.is_markup() && !b.is_markup()) return concatenate_text(heap, a.text(), b.text());
  const Value left = escaped(heap, a);
  const Value right = escaped(heap, b);
  return concatenate_text(heap, left.text(), right.text()).as_markup();
}

[[noreturn]] void fail_operands(Op op, const Value& a, const Value& b) {
  const std::string left(type_name(a));
  const std::string right(type_name(b));
  if (op == Op::kAdd && (a.is_string() || is_sequence(a))) {
    fail("can only concatenate " + left + " (not \"" + right + "\") to " + left);
  }
  fail("unsupported operand type(s) for " + std::string(sign_of(op)) + ": '" + left + "' and '" +
       right + "'");
}

}  // namespace

Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b) {
  require_defined(a);
  if (op == Op::kMod && a.is_string()) return format_percent(heap, a, b);
  if (op == Op::kMod && a.is(Kind::kBytes)) fail("the % of bytes is not supported");
  require_defined(b);
  if (a.is_integral() && b.is_integral()) return int_arithmetic(op, a.as_int(), b.as_int());
  if (a.is_numeric() && b.is_numeric()) return float_arithmetic(op, a.as_double(), b.as_double());
  if (op == Op::kAdd) {
    if (a.is_string() && b.is_string()) return add_strings(heap, a, b);
    if (a.is(Kind::kBytes) && b.is(Kind::kBytes)) {
      return Value::bytes(concatenate_text(heap, a.text(), b.text()));
    }
    if (is_sequence(a) && is_sequence(b) && a.as_list().kind == b.as_list().kind) {
      return concatenate(heap, a.as_list(), b.as_list());
    }
  }
  if (op == Op::kMul) {
    if (can_be_repeated(a) && b.is_integral()) return repeat(heap, a, b.as_int());
    if (can_be_repeated(b) && a.is_integral()) return repeat(heap, b, a.as_int());
  }
  fail_operands(op, a, b);
}

Value negate(const Value& value, Op op) {
  require_defined(value);
  if (value.is_integral())
    return int_arithmetic(op == Op::kNeg ? Op::kSub : Op::kAdd, 0, value.as_int());
  if (value.is(Kind::kFloat)) {
    return Value::number(op == Op::kNeg ? -value.as_double() : value.as_double());
  }
  fail("bad operand type for unary " + std::string(op == Op::kNeg ? "-" : "+") + ": '" +
       std::string(type_name(value)) + "'");
}

}  // namespace causeway::text::jinja
