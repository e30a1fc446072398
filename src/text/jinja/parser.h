// Template source to tree. Throws Failure with line and cause.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace causeway::text::jinja {

std::unique_ptr<const Tree> parse(std::string_view source, const Limits& limits);

}  // namespace causeway::text::jinja
