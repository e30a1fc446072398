// Arguments of calls, filters and tests, and how they meet their parameters.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

// One value a parameter, in the order of the names; missing() where none was given. Fails on too
// many arguments, unknown names and doubles.
std::vector<Value> bind(std::string_view callee, const Arguments& arguments,
                        std::initializer_list<std::string_view> parameters);

// The argument as an integer, or `fallback` when it was not given.
Int int_argument(const Value& argument, Int fallback, std::string_view callee);
// The argument as a string; fails for any other type.
std::string_view text_argument(const Value& argument, std::string_view callee);
// The argument's truth, or `fallback` when it was not given.
bool flag_argument(const Value& argument, bool fallback);

using Filter = Value (*)(Heap& heap, const Value& subject, const Arguments& arguments);
using Test = bool (*)(Heap& heap, const Value& subject, const Arguments& arguments);

// Null when there is none of that name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);

}  // namespace causeway::text::jinja
