#include "server/api/call_forms.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json_text.h"

namespace causeway::server {
namespace {

using Json = nlohmann::ordered_json;

// How a family writes calls.
struct Frame {
  std::string mark;        // before a call, or the list of them
  std::string begin, end;  // of a call, behind the mark
  std::string arguments;   // the name of their member, or the mark between name and arguments
  std::string separator;   // between calls; empty: the mark
  bool listed = false;     // calls stand in one list, in brackets
  bool bare_name = false;  // a call is its name, the mark `arguments` and these
  std::string bare = {};   // how an answer begins that is a call without a mark
};

Frame frame_of(text::ToolCallFormat format) {
  const std::string mark(text::tool_call_mark(format));
  switch (format) {
    case text::ToolCallFormat::kNone: break;
    case text::ToolCallFormat::kHermes:
      return {.mark = mark,
              .begin = "\n",
              .end = "\n</tool_call>",
              .arguments = "arguments",
              .separator = "\n"};
    case text::ToolCallFormat::kLlama3Json:
      return {.mark = mark,
              .begin = "",
              .end = "",
              .arguments = "parameters",
              .separator = "; ",
              .bare = "{\"name\":"};
    case text::ToolCallFormat::kMistral:
      return {.mark = mark,
              .begin = "",
              .end = "",
              .arguments = "arguments",
              .separator = ", ",
              .listed = true};
    case text::ToolCallFormat::kMistralArgs:
      return {.mark = mark,
              .begin = "",
              .end = "",
              .arguments = "[ARGS]",
              .separator = "",
              .bare_name = true};
  }
  CAUSEWAY_CHECK(false, "no grammar for a format that is not known");
  return {};
}

Json literal(const std::string& text) { return Json{{"type", "const_string"}, {"value", text}}; }
Json sequence(Json parts) { return Json{{"type", "sequence"}, {"elements", std::move(parts)}}; }
Json one_of(Json parts) {
  if (parts.size() == 1) return parts[0];
  return Json{{"type", "or"}, {"elements", std::move(parts)}};
}
Json tag(const std::string& begin, Json content, const std::string& end) {
  return Json{{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}

Json schema_of(const Json& function) {
  const auto parameters = function.find("parameters");
  if (parameters != function.end() && parameters->is_object() && !parameters->empty()) {
    return *parameters;
  }
  return {{"type", "object"}, {"properties", Json::object()}};
}

// A call of this tool, up to its arguments.
std::string begin_of(const Json& function, const Frame& frame) {
  if (frame.bare_name) return function["name"].get<std::string>() + frame.arguments;
  return frame.begin + "{\"name\": " + json_text(function["name"]) + ", \"" + frame.arguments +
         "\": ";
}

// One call, which begins so.
Json call_of(const std::string& begin, const Frame& frame, Json schema) {
  return tag(begin, Json{{"type", "json_schema"}, {"json_schema", std::move(schema)}},
             frame.bare_name ? "" : "}" + frame.end);
}

Json separated(Json calls, const Frame& frame, bool one) {
  return Json{{"type", "tags_with_separator"},
              {"tags", std::move(calls)},
              {"separator", frame.separator.empty() ? frame.mark : frame.separator},
              {"at_least_one", true},
              {"stop_after_first", one}};
}

// Older models write a space before the list, newer ones none.
Json list_of(Json calls, const Frame& frame, bool one) {
  Json space = {{"type", "regex"}, {"pattern", " ?"}};
  return sequence(
      Json::array({std::move(space), tag("[", separated(std::move(calls), frame, one), "]")}));
}

std::string structural_tag(Json format) {
  return json_text(Json{{"type", "structural_tag"}, {"format", std::move(format)}});
}

}  // namespace

request::ConstraintText forced_calls(text::ToolCallFormat format, const Json& tools,
                                     const std::string& name, bool one) {
  const Frame frame = frame_of(format);
  // One mark stands before a list, and before calls that marks part; where a call may do without
  // the mark, it does.
  const bool led = frame.listed || frame.separator.empty();
  const bool marked = !led && frame.bare.empty();
  Json calls = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (!name.empty() && function["name"] != name) continue;
    const std::string begin = (marked ? frame.mark : "") + begin_of(function, frame);
    calls.push_back(call_of(begin, frame, schema_of(function)));
  }
  // A named tool is called once, as the API has it.
  const bool single = one || !name.empty();
  Json all = frame.listed ? list_of(std::move(calls), frame, single)
                          : separated(std::move(calls), frame, single);
  if (led) all = sequence(Json::array({literal(frame.mark), std::move(all)}));
  return {request::ConstraintKind::kStructuralTag, structural_tag(std::move(all))};
}

grammar::CallsInText fenced_calls(text::ToolCallFormat format, const Json& tools,
                                  const std::vector<bool>& strict, bool one) {
  const Frame frame = frame_of(format);
  CAUSEWAY_CHECK(strict.size() == tools.size(), "each tool is strict or not");
  grammar::CallsInText out{.marks = {.mark = frame.mark, .bare = frame.bare}, .once = one};
  Json calls = Json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Json& function = tools[i]["function"];
    const std::string begin = begin_of(function, frame);
    Json any = {{"type", "object"}, {"additionalProperties", true}};
    calls.push_back(call_of(begin, frame, strict[i] ? schema_of(function) : std::move(any)));
    out.begins.push_back((frame.listed ? "[" : "") + begin);
  }
  out.call = structural_tag(frame.listed ? list_of(std::move(calls), frame, one)
                                         : one_of(std::move(calls)));
  return out;
}

}  // namespace causeway::server
