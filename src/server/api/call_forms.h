// The forms of tool calls, as the model writes them: of an answer that consists of calls alone, and
// of calls within an answer of free text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "grammar/calls_in_text.h"
#include "request/constraint.h"
#include "text/tool_calls/tool_call_format.h"

namespace causeway::server {

// What the parser of the same format (text::ToolCallParser) reads back. `tools`: validated, at
// least one; `name`: the one to call, or empty: any; `one`: a single call. The format is a known
// one, and can name the tools. The arguments keep to the tool's schema, strict or not.
request::ConstraintText forced_calls(text::ToolCallFormat format,
                                     const nlohmann::ordered_json& tools, const std::string& name,
                                     bool one);

// The same of calls that the model need not make: `strict` has whether the arguments of each tool
// keep to its schema; those of the others are any JSON object. The answer ends behind `one`.
// Thinking is the caller's to add.
grammar::CallsInText fenced_calls(text::ToolCallFormat format, const nlohmann::ordered_json& tools,
                                  const std::vector<bool>& strict, bool one);

}  // namespace causeway::server
