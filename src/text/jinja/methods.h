// Methods of strings, lists, dictionaries and of `loop`, as far as templates use them.
#pragma once

#include <string_view>

#include "text/jinja/call.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

// The method's name as a view that lives forever, or empty when values of this type have none of
// that name.
std::string_view find_method(const Value& value, std::string_view name);

// Whether the method would change its list or dictionary: the sandbox forbids those.
bool is_mutating(std::string_view method);

Value call_method(Heap& heap, const Method& method, const Arguments& arguments);

// "...".name(...); methods_string.cc.
Value call_string_method(Heap& heap, const Value& self, std::string_view name,
                         const Arguments& arguments);
std::string_view find_string_method(std::string_view name);

// bytes.name(...) and str.encode; methods_bytes.cc.
Value call_bytes_method(Heap& heap, const Value& self, std::string_view name,
                        const Arguments& arguments);
Value encode_text(Heap& heap, const Value& self, const Arguments& arguments);
// str.ljust and its like; methods_width.cc.
Value justify_left(Heap& heap, const Value& self, const Arguments& arguments);
Value justify_right(Heap& heap, const Value& self, const Arguments& arguments);
Value center_text(Heap& heap, const Value& self, const Arguments& arguments);
Value fill_zeros(Heap& heap, const Value& self, const Arguments& arguments);

// str.replace: the first `count` occurrences, all when negative.
Value replace_text(Heap& heap, std::string_view text, std::string_view old_part,
                   std::string_view new_part, Int count);
// str.format.
Value format_braces(Heap& heap, const Value& format, const Arguments& arguments);

}  // namespace causeway::text::jinja
