// Values as text: Python's str() and repr(), and json.dumps().
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

// The name of the value's Python type, as error messages give it.
std::string_view type_name(const Value& value);

std::string int_text(Int value);
// The shortest decimal that reads back the same, laid out as Python's repr(float).
std::string float_text(double value);

// str(value) as a string value; a string is returned as it is.
Value to_string(Heap& heap, const Value& value);
void append_string(Builder& out, const Value& value);
void append_repr(Builder& out, const Value& value, int depth = 0);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
Value to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace causeway::text::jinja
