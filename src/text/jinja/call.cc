#include "text/jinja/call.h"

#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace causeway::text::jinja {

std::vector<Value> bind(std::string_view callee, const Arguments& arguments,
                        std::initializer_list<std::string_view> parameters) {
  const std::string name(callee);
  if (arguments.positional.size() > parameters.size()) {
    fail(name + " takes at most " + std::to_string(parameters.size()) + " arguments (" +
         std::to_string(arguments.positional.size()) + " given)");
  }
  std::vector<Value> bound = arguments.positional;
  bound.resize(parameters.size(), Value::missing());
  for (const auto& [key, value] : arguments.named) {
    const auto* const found = std::find(parameters.begin(), parameters.end(), key);
    if (found == parameters.end()) {
      fail(name + " got an unexpected keyword argument '" + std::string(key) + "'");
    }
    Value& slot = bound[static_cast<std::size_t>(found - parameters.begin())];
    if (!slot.is_missing())
      fail(name + " got multiple values for argument '" + std::string(key) + "'");
    slot = value;
  }
  return bound;
}

Int int_argument(const Value& argument, Int fallback, std::string_view callee) {
  if (argument.is_missing()) return fallback;
  require_defined(argument);
  if (!argument.is_integral()) {
    fail(std::string(callee) + " needs an integer, not " + std::string(type_name(argument)));
  }
  return argument.as_int();
}

std::string_view text_argument(const Value& argument, std::string_view callee) {
  if (argument.is_missing()) fail(std::string(callee) + " needs another argument");
  require_defined(argument);
  if (!argument.is_string()) {
    fail(std::string(callee) + " needs a string, not " + std::string(type_name(argument)));
  }
  return argument.text();
}

bool flag_argument(const Value& argument, bool fallback) {
  return argument.is_missing() ? fallback : truthy(argument);
}

}  // namespace causeway::text::jinja
