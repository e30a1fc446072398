// The calls of interpreter.h: macros, methods, and the functions that every template has.
#include <ctime>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {
namespace {

// As Jinja's sandbox: what no honest template needs.
constexpr Int kRangeMax = 100'000;

Value range(Heap& heap, const Arguments& arguments) {
  const auto bound = bind("range", arguments, {"start", "stop", "step"});
  if (bound[0].is_missing()) fail("range expected at least 1 argument, got 0");
  const bool only_stop = bound[1].is_missing();
  const Int start = only_stop ? 0 : int_argument(bound[0], 0, "range");
  const Int stop = int_argument(only_stop ? bound[0] : bound[1], 0, "range");
  const Int step = int_argument(bound[2], 1, "range");
  if (step == 0) fail("range() arg 3 must not be zero");
  constexpr Int kFarthest = Int{1} << 100;
  if (start > kFarthest || start < -kFarthest || stop > kFarthest || stop < -kFarthest ||
      step > kFarthest || step < -kFarthest) {
    fail_limit("Range too big.");
  }
  const Int distance = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > kRangeMax) {
    fail_limit("Range too big. The sandbox blocks ranges larger than " + int_text(kRangeMax) + ".");
  }
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  return heap.list(std::move(items), ListKind::kRange);
}

// dict(mapping or pairs, **more): also the members of namespace().
std::vector<std::pair<Value, Value>> dict_entries(Heap& heap, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) fail("dict expected at most 1 argument");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is(Kind::kDict)) {
      entries = from.as_dict().entries;
    } else {
      for (const Value& item : elements(heap, from).items) {
        const auto& pair = elements(heap, item).items;
        if (pair.size() != 2) fail("dict: an element is not a pair");
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) {
    heap.step(1 + static_cast<std::int64_t>(entries.size() / 8));
    bool known = false;
    for (auto& entry : entries) {
      if (!entry.first.is_string() || entry.first.text() != key) continue;
      entry.second = value;
      known = true;
    }
    if (!known) entries.emplace_back(heap.string(std::string(key)), value);
  }
  return entries;
}

}  // namespace

Value Interpreter::call_value(const Value& callee, Arguments& arguments) {
  require_defined(callee);
  switch (callee.kind()) {
    case Kind::kMacro: return call_macro(callee.as_macro(), arguments);
    case Kind::kMethod: return call_method(heap_, callee.as_method(), arguments);
    case Kind::kFunction: return call_function(callee.as_function(), arguments);
    default: fail("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Interpreter::call_macro(const Macro& macro, Arguments& arguments) {
  const Deeper deeper(*this);
  if (call_depth_ >= heap_.limits().call_depth_max) {
    fail_limit("macros call each other deeper than " +
               std::to_string(heap_.limits().call_depth_max));
  }
  ++call_depth_;
  const InScope scope(*this, macro.closure);
  bind_macro(*macro.node, arguments);
  Captured capture(*this);
  execute(macro.node->body);
  --call_depth_;
  return capture.finish();
}

namespace {

// The argument given by name, which is removed from the arguments; missing() when there is none.
Value take_named(Arguments& arguments, std::string_view name) {
  for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it) {
    if (it->first != name) continue;
    Value value = std::move(it->second);
    arguments.named.erase(it);
    return value;
  }
  return Value::missing();
}

}  // namespace

void Interpreter::bind_macro(const MacroNode& node, Arguments& arguments) {
  const std::string name = "macro '" + std::string(node.name) + "'";
  const std::size_t count = node.parameters.size();
  const std::size_t first_default = count - node.defaults.size();
  const Value caller = take_named(arguments, "caller");
  if (!caller.is_missing() && !node.uses_caller) {
    fail(name + " was invoked with two values for the special caller argument or takes none");
  }
  if (node.uses_caller) {
    store(tree_.known.caller, caller.is_missing()
                                  ? Value::undefined_because(Value::view("No caller defined"))
                                  : caller);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view parameter = tree_.names.text(node.parameters[i]);
    Value value = take_named(arguments, parameter);
    if (i < arguments.positional.size()) {
      if (!value.is_missing())
        fail(name + " got multiple values for argument '" + std::string(parameter) + "'");
      value = arguments.positional[i];
    }
    if (value.is_missing()) {
      value = i >= first_default ? evaluate(*node.defaults[i - first_default])
                                 : Value::undefined_name(parameter);
    }
    store(node.parameters[i], std::move(value));
  }
  if (arguments.positional.size() > count && !node.uses_varargs) {
    fail(name + " takes not more than " + std::to_string(count) + " argument(s)");
  }
  if (!arguments.named.empty() && !node.uses_kwargs) {
    fail(name + " takes no keyword argument '" + std::string(arguments.named[0].first) + "'");
  }
  if (node.uses_varargs) {
    const auto from = static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    store(tree_.known.varargs,
          heap_.list({arguments.positional.begin() + from, arguments.positional.end()},
                     ListKind::kTuple));
  }
  if (node.uses_kwargs) {
    store(tree_.known.kwargs, heap_.dict(dict_entries(heap_, {{}, arguments.named})));
  }
}

Value Interpreter::call_function(Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRaiseException: {
      const auto bound = bind("raise_exception", arguments, {"message"});
      Failure failure;
      failure.cause = Failure::Cause::kRaised;
      failure.message =
          bound[0].is_missing() ? std::string() : std::string(to_string(heap_, bound[0]).text());
      throw failure;
    }
    case Function::kStrftimeNow: return strftime_now(arguments);
    case Function::kNamespace: return heap_.name_space(dict_entries(heap_, arguments));
    case Function::kRange: return range(heap_, arguments);
    case Function::kDict: return heap_.dict(dict_entries(heap_, arguments));
  }
  return {};
}

Value Interpreter::strftime_now(const Arguments& arguments) {
  const auto bound = bind("strftime_now", arguments, {"format"});
  const std::string format(text_argument(bound[0], "strftime_now"));
  if (format.empty()) return Value::view("");
  if (format.size() > 1000) fail("strftime_now: the format is longer than 1000 bytes");
  const std::time_t now = now_unix_seconds_;
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) fail("strftime_now: the time cannot be represented");
  char buffer[8192];
  const std::size_t size = std::strftime(buffer, sizeof(buffer), format.c_str(), &parts);
  return heap_.string(std::string(buffer, size));
}

}  // namespace causeway::text::jinja
