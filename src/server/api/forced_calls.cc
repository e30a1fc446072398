#include "server/api/forced_calls.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace causeway::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kListedCallsMax = 4;  // where calls are a list

// What stands around the arguments of one call, and around all calls.
struct Frame {
  std::string begin, end;             // of a call
  std::string arguments;              // the name of their member
  std::string separator;              // between calls
  std::string first = {}, last = {};  // around all of them
};

Frame frame_of(text::ToolCallFormat format) {
  switch (format) {
    case text::ToolCallFormat::kNone: break;
    case text::ToolCallFormat::kHermes:
      return {.begin = "<tool_call>\n",
              .end = "\n</tool_call>",
              .arguments = "arguments",
              .separator = "\n"};
    case text::ToolCallFormat::kLlama3Json:
      return {.begin = "", .end = "", .arguments = "parameters", .separator = "; "};
    case text::ToolCallFormat::kMistral:
      return {.begin = "",
              .end = "",
              .arguments = "arguments",
              .separator = ", ",
              .first = "[TOOL_CALLS] [",
              .last = "]"};
  }
  CAUSEWAY_CHECK(false, "no grammar for a format that is not known");
  return {};
}

Json literal(const std::string& text) { return Json{{"type", "const_string"}, {"value", text}}; }

// One call of this tool.
Json call_of(const Json& function, const Frame& frame) {
  Json schema = {{"type", "object"}, {"properties", Json::object()}};
  const auto parameters = function.find("parameters");
  if (parameters != function.end() && parameters->is_object() && !parameters->empty()) {
    schema = *parameters;
  }
  const std::string open =
      frame.begin + "{\"name\": " + function["name"].dump() + ", \"" + frame.arguments + "\": ";
  return Json{{"type", "tag"},
              {"begin", open},
              {"content", Json{{"type", "json_schema"}, {"json_schema", std::move(schema)}}},
              {"end", "}" + frame.end}};
}

Json sequence(Json parts) { return Json{{"type", "sequence"}, {"elements", std::move(parts)}}; }
Json one_of(Json parts) {
  if (parts.size() == 1) return parts[0];
  return Json{{"type", "or"}, {"elements", std::move(parts)}};
}

// Calls in a list that is closed. XGrammar closes nothing behind a part without an end, so they are
// counted.
Json closed_list(const Json& call, const Frame& frame, int calls_max) {
  Json rest = literal(frame.last);
  for (int i = 1; i < calls_max; ++i) {
    Json more = sequence(Json::array({literal(frame.separator), call, std::move(rest)}));
    rest = one_of(Json::array({literal(frame.last), std::move(more)}));
  }
  return sequence(Json::array({literal(frame.first), call, std::move(rest)}));
}

}  // namespace

request::ConstraintText forced_calls(text::ToolCallFormat format, const Json& tools,
                                     const std::string& name, bool one) {
  const Frame frame = frame_of(format);
  Json calls = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (name.empty() || function["name"] == name) calls.push_back(call_of(function, frame));
  }
  // A named tool is called once, as the API has it.
  const bool single = one || !name.empty();
  Json all = {{"type", "tags_with_separator"},
              {"tags", calls},
              {"separator", frame.separator},
              {"at_least_one", true},
              {"stop_after_first", single}};
  if (!frame.first.empty()) all = closed_list(one_of(calls), frame, single ? 1 : kListedCallsMax);
  const Json tag = {{"type", "structural_tag"}, {"format", std::move(all)}};
  return {request::ConstraintKind::kStructuralTag, tag.dump()};
}

}  // namespace causeway::server
