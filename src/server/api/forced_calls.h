// The form of an answer that consists of tool calls alone, as the model writes them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "request/constraint.h"
#include "text/tool_calls/tool_call_format.h"

namespace causeway::server {

// What the parser of the same format (text::ToolCallParser) reads back. `tools`: validated, at
// least one; `name`: the one to call, or empty: any; `one`: a single call. The format is a known
// one.
request::ConstraintText forced_calls(text::ToolCallFormat format,
                                     const nlohmann::ordered_json& tools, const std::string& name,
                                     bool one);

}  // namespace causeway::server
