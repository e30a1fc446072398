// Tools that a model may call, and calls of earlier answers.
#include <algorithm>
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

// Whether it is strict.
bool parse_function(Fields& fields, const ApiLimits& limits) {
  parse_tool_name(fields, limits);
  fields.string("description");
  fields.object("parameters");
  return fields.boolean("strict").value_or(false);
}

MaybeError parse_tool(const Json& tool, const ApiLimits& limits, const std::string& path,
                      GenerationRequest& out) {
  if (!tool.is_object()) return bad_request("`" + path + "` must be an object", path);
  Fields fields(tool, path + ".");
  parse_type(fields, false);
  bool strict = false;
  if (out.endpoint == Endpoint::kResponses) {
    strict = parse_function(fields, limits);
  } else if (const Json* function = fields.object("function")) {
    Fields inner(*function, path + ".function.");
    strict = parse_function(inner, limits);
    inner.reject_rest();
    if (inner.failed()) fields.fail(*inner.error());
  } else {
    fields.fail("function", "must be an object with a name");
  }
  fields.reject_rest();
  out.strict_tools.push_back(strict);
  return fields.error();
}

// As templates read it, which know the chat's form. That arguments keep to the schema is not the
// model's affair.
Json chat_tool(const Json& tool) {
  Json function = Json::object();
  for (const std::string_view name : {"name", "description", "parameters"}) {
    const auto member = tool.find(std::string(name));
    if (member != tool.end() && !member->is_null()) function[std::string(name)] = *member;
  }
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

std::string choices_of(bool flat) {
  return std::string("must be \"none\", \"auto\", \"required\" or {type: \"function\", ") +
         (flat ? "name}" : "function: {name}}");
}

// Reads a `tool_choice` that is an object: it names the tool to be called.
void parse_named_choice(Fields& fields, const Json& choice, const ApiLimits& limits,
                        GenerationRequest& out) {
  const bool flat = out.endpoint == Endpoint::kResponses;
  Fields outer(choice, "tool_choice.");
  parse_type(outer, false);
  const Json* function = flat ? outer.value("name") : outer.object("function");
  outer.reject_rest();
  if (outer.failed() || function == nullptr) return fields.fail("tool_choice", choices_of(flat));
  Fields inner(flat ? choice : *function, flat ? "tool_choice." : "tool_choice.function.");
  out.forced_tool = parse_tool_name(inner, limits);
  if (flat) inner.value("type");
  inner.reject_rest();
  if (inner.failed()) fields.fail(*inner.error());
  out.forces_call = true;
}

// Reads `tool_choice`. False: "none", and the template is given no tools.
bool parse_choice(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const Json* choice = fields.value("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  out.forces_call = *choice == "required";
  if (choice->is_object()) {
    parse_named_choice(fields, *choice, limits, out);
  } else if (!out.forces_call) {
    fields.fail("tool_choice", choices_of(out.endpoint == Endpoint::kResponses));
  }
  return true;
}

bool has_tool(const Json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(),
                     [&](const Json& tool) { return tool["function"]["name"] == name; });
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
  const std::string name = parse_tool_name(inner, limits);
  parse_arguments(inner, limits, arguments);
  inner.reject_rest();
  fields.reject_rest();
  if (inner.failed()) return inner.error();
  if (fields.failed()) return fields.error();
  out = Json{{"id", *id}, {"type", "function"}};
  out["function"] = Json{{"name", name}, {"arguments", std::move(arguments)}};
  return {};
}

}  // namespace

std::string parse_tool_name(Fields& fields, const ApiLimits& limits) {
  auto name = fields.string("name");
  if (name && !name->empty() && name->size() <= limits.tool_name_bytes_max) return *name;
  fields.fail("name",
              "must be a string of 1 to " + std::to_string(limits.tool_name_bytes_max) + " bytes");
  return {};
}

void parse_arguments(Fields& fields, const ApiLimits& limits, Json& out) {
  const Json* arguments = fields.value("arguments");
  if (arguments != nullptr && arguments->is_object()) {
    out = *arguments;
    return;
  }
  out = Json::object();
  if (arguments == nullptr || *arguments == "") return;
  if (!arguments->is_string() ||
      parse_object(arguments->get_ref<const std::string&>(), limits, out)) {
    fields.fail("arguments", "must be a JSON object, as a string");
  }
}

void parse_tools(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  const bool wanted = parse_choice(fields, limits, out);
  out.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  const Json* tools = fields.value("tools");
  if (out.forces_call && (tools == nullptr || tools->empty())) {
    return fields.fail("tool_choice", "forces a call, but there are no `tools`");
  }
  if (tools == nullptr) return;
  if (!tools->is_array() || tools->size() > limits.tools_max) {
    return fields.fail("tools",
                       "must be a list of at most " + std::to_string(limits.tools_max) + " tools");
  }
  for (std::size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
    if (auto error = parse_tool((*tools)[i], limits, indexed("tools", i), out)) fields.fail(*error);
  }
  if (fields.failed()) return;
  out.calls_tools = wanted && !tools->empty();
  if (!out.calls_tools) {
    out.strict_tools.clear();
  } else {
    out.chat->tools = *tools;
    if (out.endpoint == Endpoint::kResponses) {
      std::transform(tools->begin(), tools->end(), out.chat->tools.begin(), chat_tool);
    }
  }
  if (!out.forced_tool.empty() && !has_tool(out.chat->tools, out.forced_tool)) {
    fields.fail("tool_choice", "names a function that is not in `tools`");
  }
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
