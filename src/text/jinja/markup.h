// Markup: strings that `safe` and `escape` give, as Python's markupsafe has them. Jinja does not
// escape output here, but these strings escape whatever + and % and their own methods join to them,
// so `'<' + (tool | tojson | safe)` is not what it is without `safe`.
#pragma once

#include <string_view>

#include "text/jinja/call.h"
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

// str(value) with & < > " ' written as references, as markup; markup is returned as it is.
Value escaped(Heap& heap, const Value& value);

// The arguments of a method of markup: those that become part of the result are escaped.
Arguments escaped_arguments(Heap& heap, std::string_view method, const Arguments& arguments);
// What a method of markup returns: strings, and strings in lists and tuples, are markup.
Value marked(Heap& heap, const Value& result);

}  // namespace causeway::text::jinja
