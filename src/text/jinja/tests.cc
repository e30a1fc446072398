// Tests: what may stand after `is`, and in select and its like.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/call.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

const Value& other(const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail("this test needs exactly one argument");
  }
  return arguments.positional[0];
}

template <Op kOp>
bool compared(Heap& heap, const Value& value, const Arguments& arguments) {
  return compare(heap, kOp, value, other(arguments));
}

bool is_defined(Heap&, const Value& value) { return !value.is_undefined(); }
bool is_undefined(Heap&, const Value& value) { return value.is_undefined(); }
bool is_none(Heap&, const Value& value) { return value.is_none(); }
bool is_string(Heap&, const Value& value) { return value.is_string(); }
bool is_escaped(Heap&, const Value& value) { return value.is_markup(); }
bool is_mapping(Heap&, const Value& value) { return value.is(Kind::kDict); }
bool is_number(Heap&, const Value& value) { return value.is_numeric(); }
bool is_integer(Heap&, const Value& value) { return value.is(Kind::kInt); }
bool is_float(Heap&, const Value& value) { return value.is(Kind::kFloat); }
bool is_boolean(Heap&, const Value& value) { return value.is(Kind::kBool); }
bool is_true(Heap&, const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool is_false(Heap&, const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool is_iterable(Heap&, const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kBytes) ||
         value.is(Kind::kList) || value.is(Kind::kDict);
}
bool is_sequence(Heap&, const Value& value) {
  if (!value.is(Kind::kList)) {
    return value.is_undefined() || value.is_string() || value.is(Kind::kBytes) ||
           value.is(Kind::kDict);
  }
  const ListKind kind = value.as_list().kind;
  return kind == ListKind::kList || kind == ListKind::kTuple || kind == ListKind::kRange;
}
bool is_callable(Heap&, const Value& value) {
  // Undefined has a __call__ too, though one that fails.
  return value.is_undefined() || value.is(Kind::kMacro) || value.is(Kind::kMethod) ||
         value.is(Kind::kFunction) || value.is(Kind::kLoop);
}

template <Int kRest>
bool has_rest_of_two(Heap& heap, const Value& value) {
  return equal(heap, arithmetic(heap, Op::kMod, value, Value::integer(2)), Value::integer(kRest));
}
bool is_divisible(Heap& heap, const Value& value, const Arguments& arguments) {
  return !truthy(arithmetic(heap, Op::kMod, value, other(arguments)));
}

bool is_same(Heap& heap, const Value& value, const Arguments& arguments) {
  const Value& second = other(arguments);
  if (value.kind() != second.kind()) return false;
  if (value.is(Kind::kList)) return &value.as_list() == &second.as_list();
  if (value.is(Kind::kDict)) return &value.as_dict() == &second.as_dict();
  return equal(heap, value, second);
}

template <std::string (*kMap)(std::string_view)>
bool is_in_case(Heap& heap, const Value& value) {
  const Value text = to_string(heap, value);
  heap.work_bytes(text.text().size());
  bool cased = false;
  for (std::size_t at = 0; at < text.text().size();) {
    const CodePoint point = code_point_at(text.text(), at);
    cased = cased || is_cased(point.value);
    at += point.bytes;
  }
  return cased && kMap(text.text()) == text.text();
}

bool is_filter(Heap&, const Value& value) {
  return value.is_string() && find_filter(value.text()) != nullptr;
}
bool is_test(Heap&, const Value& value) {
  return value.is_string() && find_test(value.text()) != nullptr;
}

// A test without an argument.
template <bool (*kTest)(Heap&, const Value&)>
bool alone(Heap& heap, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    fail("this test takes no argument");
  }
  return kTest(heap, value);
}

struct TestEntry {
  std::string_view name;
  Test call;
};

constexpr std::array<TestEntry, 39> kTests = {{
    {"defined", alone<is_defined>},
    {"undefined", alone<is_undefined>},
    {"none", alone<is_none>},
    {"string", alone<is_string>},
    {"escaped", alone<is_escaped>},
    {"mapping", alone<is_mapping>},
    {"number", alone<is_number>},
    {"integer", alone<is_integer>},
    {"float", alone<is_float>},
    {"boolean", alone<is_boolean>},
    {"true", alone<is_true>},
    {"false", alone<is_false>},
    {"iterable", alone<is_iterable>},
    {"sequence", alone<is_sequence>},
    {"callable", alone<is_callable>},
    {"odd", alone<has_rest_of_two<1>>},
    {"even", alone<has_rest_of_two<0>>},
    {"divisibleby", is_divisible},
    {"sameas", is_same},
    {"lower", alone<is_in_case<lower>>},
    {"upper", alone<is_in_case<upper>>},
    {"filter", alone<is_filter>},
    {"test", alone<is_test>},
    {"in", compared<Op::kIn>},
    {"==", compared<Op::kEq>},
    {"eq", compared<Op::kEq>},
    {"equalto", compared<Op::kEq>},
    {"!=", compared<Op::kNe>},
    {"ne", compared<Op::kNe>},
    {">", compared<Op::kGt>},
    {"gt", compared<Op::kGt>},
    {"greaterthan", compared<Op::kGt>},
    {">=", compared<Op::kGe>},
    {"ge", compared<Op::kGe>},
    {"<", compared<Op::kLt>},
    {"lt", compared<Op::kLt>},
    {"lessthan", compared<Op::kLt>},
    {"<=", compared<Op::kLe>},
    {"le", compared<Op::kLe>},
}};

}  // namespace

Test find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const TestEntry& e) { return e.name == name; });
  return found == kTests.end() || name.empty() ? nullptr : found->call;
}

}  // namespace causeway::text::jinja
