// The input of a rendering, JSON, as values of the template language.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

// The value that the JSON is to a template. Strings are views: `json` must outlive the heap.
Value from_json(Heap& heap, const nlohmann::ordered_json& json, int depth = 0);

}  // namespace causeway::text::jinja
