// Tools, choices among them and calls of earlier answers, as both endpoints with tools have them:
// changes of bodies that are well formed (edited_file.h). What is accepted is what templates read,
// and a call that is forced is read back by the parser of its format, whatever its tool is called.
// The first byte picks endpoint and format.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "grammar/check_constraint.h"
#include "server/api/chat_body.h"
#include "server/api/call_forms.h"
#include "server/api/generation_request.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::server {
namespace {

using Json = nlohmann::ordered_json;
using text::ToolCallFormat;

const std::vector<std::string> kChats = {
    R"({"model": "m", "tool_choice": "required", "tools": [{"type": "function", "function": {"name":
 "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"enum": [1]}}}}},
 {"type": "function", "function": {"name": "g", "strict": true}}],
 "messages": [{"role": "user", "content": "a"}]})",
    R"({"model": "m", "tool_choice": {"type": "function", "function": {"name": "g"}}, "tools":
 [{"type": "function", "function": {"name": "g", "parameters": {}}}], "messages": [{"role":
 "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "g", "arguments":
 "{\"a\": {\"b\": [1]}}"}}, {"id": "2", "index": 1, "function": {"name": "h", "arguments": ""}}]},
 {"role": "tool", "tool_call_id": "1", "content": "r"}]})",
    R"({"model": "m", "tool_choice": "auto", "parallel_tool_calls": false, "tools": [{"type":
 "function", "function": {"name": "f", "strict": false}}],
 "messages": [{"role": "user", "content": "a"}]})"};
const std::vector<std::string> kResponses = {
    R"({"model": "m", "tool_choice": "required", "tools": [{"type": "function", "name": "f",
 "parameters": {"type": "object"}, "strict": true}], "input": [{"type": "function_call", "call_id":
 "c", "name": "f", "arguments": "{\"a\": 1}"}, {"type": "function_call_output", "call_id": "c",
 "output": "r"}]})",
    R"({"model": "m", "tool_choice": {"type": "function", "name": "f"}, "input": "a", "tools":
 [{"type": "function", "name": "f"}, {"type": "function", "name": "g", "description": "d"}]})"};
constexpr std::string_view kWords[] = {"none",         "required",
                                       "auto",         "allowed_tools",
                                       "strict",       "arguments",
                                       "function",     "name",
                                       "parameters",   "$defs",
                                       "$ref",         "type",
                                       "object",       "additionalProperties",
                                       "web_search",   "custom",
                                       "\\\"",         "\\u0001\\u0002\\u0003",
                                       "</tool_call>", "[TOOL_CALLS]",
                                       "[ARGS]",       "\xC3\xA9\xF0\x9F\x91\x8B"};

// The first tag below `value` that stands around the arguments of a call; others stand around lists
// of calls.
const Json* find_call(const Json& value) {
  if (value.is_object() && value.value("type", Json()) == "tag" &&
      value["content"]["type"] == "json_schema") {
    return &value;
  }
  for (const Json& inner : value) {
    if (!inner.is_structured()) continue;
    if (const Json* call = find_call(inner)) return call;
  }
  return nullptr;
}

bool can_name_all(const GenerationRequest& asked, ToolCallFormat format) {
  const Json& tools = asked.chat->tools;
  return std::all_of(tools.begin(), tools.end(), [&](const Json& tool) {
    return text::can_name_tool(format, tool["function"]["name"].get_ref<const std::string&>());
  });
}

// A model that keeps to the form calls the first tool that it may.
void check_forced(const GenerationRequest& asked, ToolCallFormat format) {
  const auto form = forced_calls(format, asked.chat->tools, asked.forced_tool, true);
  const Status status = grammar::check_constraint(form);
  CAUSEWAY_CHECK(status.ok() || !status.error().message.empty());
  const Json tree = Json::parse(form.text);
  const Json* call = find_call(tree);
  CAUSEWAY_CHECK(call != nullptr);
  std::string text = (*call)["begin"].get<std::string>() + "{}" + (*call)["end"].get<std::string>();
  if (format == ToolCallFormat::kMistralArgs) text = "[TOOL_CALLS]" + text;
  if (format == ToolCallFormat::kMistral) text = "[TOOL_CALLS] [" + text + "]";
  text::ToolCallParser parser({.format = format});
  parser.push(text);
  parser.finish();
  const auto calls = parser.take_calls();
  CAUSEWAY_CHECK(parser.take_content().empty() && calls.size() == 1, text);
  const std::string first = asked.forced_tool.empty()
                                ? asked.chat->tools[0]["function"]["name"].get<std::string>()
                                : asked.forced_tool;
  CAUSEWAY_CHECK(calls[0].name == first && calls[0].arguments == "{}", text);
}

void check_messages(const Json& messages) {
  for (const Json& message : messages) {
    CAUSEWAY_CHECK(message["role"].is_string() && message["content"].is_string());
    if (!message.contains("tool_calls")) continue;
    for (const Json& call : message["tool_calls"]) {
      CAUSEWAY_CHECK(call["type"] == "function" && call["function"]["name"].is_string());
      CAUSEWAY_CHECK(call["function"]["arguments"].is_object());
    }
  }
}

void fuzz(Endpoint endpoint, ToolCallFormat format, std::string_view input) {
  const auto& files = endpoint == Endpoint::kChat ? kChats : kResponses;
  const auto body = causeway::testing::edited_file({files, kWords}, input);
  GenerationRequest asked;
  if (const auto error = parse_generation(endpoint, body.text, {}, asked)) {
    CAUSEWAY_CHECK(!body.whole, error->message);
    CAUSEWAY_CHECK(error->status == 400 && !error->message.empty());
    std::string out;
    append_error(out, *error);
    return;
  }
  check_messages(asked.chat->messages);
  CAUSEWAY_CHECK(asked.calls_tools == !asked.chat->tools.empty());
  CAUSEWAY_CHECK(asked.calls_tools || !asked.forces_call);
  for (const Json& tool : asked.chat->tools) {
    CAUSEWAY_CHECK(tool["type"] == "function" && tool["function"]["name"].is_string());
  }
  if (asked.forces_call && can_name_all(asked, format)) check_forced(asked, format);
}

}  // namespace
}  // namespace causeway::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::server;  // NOLINT: the fuzzer's entry must be global
  if (size == 0) return 0;
  const auto format = static_cast<causeway::text::ToolCallFormat>(1 + data[0] / 2 % 4);
  fuzz(data[0] % 2 == 0 ? Endpoint::kChat : Endpoint::kResponses, format,
       {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
