// Tools that a model may call, and calls of earlier answers.
#include <nlohmann/json.hpp>

#include "server/api/chat_body.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

std::string indexed(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

void parse_type(Fields& fields, bool may_be_missing) {
  const auto type = fields.string("type");
  if (!type && may_be_missing) return;
  if (type != "function") fields.fail("type", "must be \"function\"");
}

std::string parse_name(Fields& fields, const ApiLimits& limits) {
  auto name = fields.string("name");
  if (name && !name->empty() && name->size() <= limits.tool_name_bytes_max) return *name;
  fields.fail("name",
              "must be a string of 1 to " + std::to_string(limits.tool_name_bytes_max) + " bytes");
  return {};
}

MaybeError parse_function(const Json& function, const ApiLimits& limits, std::string prefix) {
  Fields fields(function, std::move(prefix));
  parse_name(fields, limits);
  fields.string("description");
  fields.object("parameters");
  if (fields.boolean("strict").value_or(false)) {
    fields.fail("strict", "is not supported by this server; leave it out");
  }
  fields.reject_rest();
  return fields.error();
}

MaybeError parse_tool(const Json& tool, const ApiLimits& limits, const std::string& path) {
  if (!tool.is_object()) return bad_request("`" + path + "` must be an object", path);
  Fields fields(tool, path + ".");
  parse_type(fields, false);
  const Json* function = fields.object("function");
  if (function == nullptr) {
    fields.fail("function", "must be an object with a name");
  } else if (auto error = parse_function(*function, limits, path + ".function.")) {
    fields.fail(*std::move(error));
  }
  fields.reject_rest();
  return fields.error();
}

// Nothing but "none" and "auto": a call cannot be forced without constrained decoding.
bool wants_calls(Fields& fields) {
  const Json* choice = fields.value("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  const bool forced = *choice == "required" || choice->is_object();
  ApiError error = bad_request(
      forced ? "`tool_choice` can be \"none\" or \"auto\": this server cannot force a call"
             : "`tool_choice` must be \"none\" or \"auto\"",
      "tool_choice", forced ? "unsupported" : "");
  fields.fail(std::move(error));
  return false;
}

// Arguments are sent as text that is JSON; templates read the object.
MaybeError parse_arguments(Fields& fields, const ApiLimits& limits, const std::string& path,
                           Json& out) {
  const Json* arguments = fields.value("arguments");
  if (arguments != nullptr && arguments->is_object()) {
    out = *arguments;
    return {};
  }
  out = Json::object();
  if (arguments == nullptr || *arguments == "") return {};
  if (!arguments->is_string() ||
      parse_object(arguments->get_ref<const std::string&>(), limits, out)) {
    const std::string name = path + "function.arguments";
    return bad_request("`" + name + "` must be a JSON object, as a string", name);
  }
  return {};
}

MaybeError parse_call(const Json& call, const ApiLimits& limits, const std::string& prefix,
                      Json& out) {
  Fields fields(call, prefix);
  const auto id = fields.string("id");
  if (!id) fields.fail("id", "must be a string");
  parse_type(fields, true);
  fields.integer("index", 0, 0x7FFFFFFF);  // a part of events that clients send back
  const Json* function = fields.object("function");
  if (function == nullptr) {
    fields.fail("function", "must be an object with a name and arguments");
    return fields.error();
  }
  Fields inner(*function, prefix + "function.");
  Json arguments;
  const std::string name = parse_name(inner, limits);
  if (auto error = parse_arguments(inner, limits, prefix, arguments)) fields.fail(*error);
  inner.reject_rest();
  fields.reject_rest();
  if (inner.failed()) return inner.error();
  if (fields.failed()) return fields.error();
  out = Json{{"id", *id}, {"type", "function"}};
  out["function"] = Json{{"name", name}, {"arguments", std::move(arguments)}};
  return {};
}

}  // namespace

void parse_tools(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const bool wanted = wants_calls(fields);
  out.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* tools = fields.value("tools");
  if (tools == nullptr) return;
  if (!tools->is_array() || tools->size() > limits.tools_max) {
    return fields.fail("tools",
                       "must be a list of at most " + std::to_string(limits.tools_max) + " tools");
  }
  for (std::size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
    if (auto error = parse_tool((*tools)[i], limits, indexed("tools", i))) fields.fail(*error);
  }
  out.calls_tools = wanted && !tools->empty();
  if (out.calls_tools) out.chat->tools = *tools;
}

bool parse_tool_calls(Fields& message, const ApiLimits& limits, Json& out) {
  const Json* calls = message.value("tool_calls");
  if (calls == nullptr) return false;
  if (!calls->is_array() || calls->size() > limits.tools_max) {
    message.fail("tool_calls",
                 "must be a list of at most " + std::to_string(limits.tools_max) + " calls");
    return false;
  }
  out = Json::array();
  for (std::size_t i = 0; i < calls->size() && !message.failed(); ++i) {
    const std::string path = message.prefix() + indexed("tool_calls", i);
    Json call;
    if (!(*calls)[i].is_object()) {
      message.fail(bad_request("`" + path + "` must be an object", path));
    } else if (auto error = parse_call((*calls)[i], limits, path + ".", call)) {
      message.fail(*std::move(error));
    }
    out.push_back(std::move(call));
  }
  return !out.empty();
}

}  // namespace causeway::server
