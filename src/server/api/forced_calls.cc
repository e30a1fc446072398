#include "server/api/forced_calls.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace causeway::server {
namespace {

using Json = nlohmann::ordered_json;

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
  if (parameters != function.end() && parameters->is_object()) schema = *parameters;
  const std::string open =
      frame.begin + "{\"name\": " + function["name"].dump() + ", \"" + frame.arguments + "\": ";
  return Json{{"type", "tag"},
              {"begin", open},
              {"content", Json{{"type", "json_schema"}, {"json_schema", std::move(schema)}}},
              {"end", "}" + frame.end}};
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
  Json all = {{"type", "tags_with_separator"},
              {"tags", std::move(calls)},
              {"separator", frame.separator},
              {"at_least_one", true},
              {"stop_after_first", one || !name.empty()}};
  if (!frame.first.empty()) {
    Json parts = Json::array({literal(frame.first), std::move(all), literal(frame.last)});
    all = Json{{"type", "sequence"}, {"elements", std::move(parts)}};
  }
  const Json tag = {{"type", "structural_tag"}, {"format", std::move(all)}};
  return {request::ConstraintKind::kStructuralTag, tag.dump()};
}

}  // namespace causeway::server
