#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "server/api/chat_body.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};
constexpr std::string_view kContentForm = "must be a string or a list of {type: \"text\", text}";

// Text parts of a content list, joined by newlines.
void join_parts(Fields& message, const Json& parts, std::string& out) {
  if (parts.empty()) return message.fail("content", kContentForm);
  bool first = true;
  for (const Json& part : parts) {
    if (!part.is_object()) return message.fail("content", kContentForm);
    Fields fields(part, "content part: ");
    const auto type = fields.string("type");
    if (type != "text") {
      return message.fail("content", "has a part that is not of type text, which is not supported");
    }
    const auto text = fields.string("text");
    fields.value("cache_control");
    fields.reject_rest();
    if (!text || fields.failed()) return message.fail("content", kContentForm);
    if (!first) out += '\n';
    first = false;
    out += *text;
  }
}

void parse_role(Fields& fields, Json& out) {
  const auto role = fields.string("role");
  if (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    return fields.fail("role", "must be one of system, developer, user, assistant, tool");
  }
  out["role"] = *role;
}

// A message that calls tools, or was cut while the model thought, need not say anything.
void parse_content(Fields& fields, bool may_be_empty, Json& out) {
  const Json* content = fields.value("content");
  std::string text;
  if (content == nullptr || (may_be_empty && content->is_array() && content->empty())) {
    if (!may_be_empty) fields.fail("content", kContentForm);
    out["content"] = text;
    return;
  }
  if (content->is_string()) {
    text = content->get<std::string>();
  } else if (content->is_array()) {
    join_parts(fields, *content, text);
  } else {
    fields.fail("content", kContentForm);
  }
  out["content"] = std::move(text);
}

// Reads reasoning under both names that servers give it; templates know the older one.
void parse_reasoning(Fields& fields, Json& out) {
  const auto newer = fields.string("reasoning"), older = fields.string("reasoning_content");
  if (older || newer) out["reasoning_content"] = older ? *older : *newer;
}

// An empty list of calls is how some clients echo an answer without any.
void parse_empty_list(Fields& fields, std::string_view name) {
  const Json* value = fields.value(name);
  if (value != nullptr && !(value->is_array() && value->empty())) {
    fields.fail(name, "is not supported by this server; leave it out");
  }
}

void parse_tool_answer(Fields& fields, Json& out) {
  const auto id = fields.string("tool_call_id");
  if (!id) return fields.fail("tool_call_id", "must name the call that this answers");
  out["tool_call_id"] = *id;
}

MaybeError parse_message(const Json& message, std::size_t index, const ApiLimits& limits,
                         Json& out) {
  const std::string path = "messages[" + std::to_string(index) + "]";
  if (!message.is_object()) return bad_request("`" + path + "` must be an object", path);
  Fields fields(message, path + ".");
  out = Json::object();
  parse_role(fields, out);
  if (fields.failed()) return fields.error();
  const bool assistant = out["role"] == "assistant";
  Json calls;
  const bool called = assistant && parse_tool_calls(fields, limits, calls);
  parse_reasoning(fields, out);
  const bool thought = assistant && out.contains("reasoning_content");
  parse_content(fields, called || thought, out);
  if (called) out["tool_calls"] = std::move(calls);
  if (out["role"] == "tool") parse_tool_answer(fields, out);
  if (!assistant) parse_empty_list(fields, "tool_calls");
  if (const auto name = fields.string("name")) out["name"] = *name;
  parse_empty_list(fields, "annotations");
  fields.reject_rest();
  return fields.error();
}

void parse_messages(Fields& fields, const ApiLimits& limits, ChatBody& chat) {
  const Json* messages = fields.value("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.fail("messages", "must be a list of at least one message");
  }
  for (std::size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    Json message;
    if (auto error = parse_message((*messages)[i], i, limits, message)) {
      fields.fail(*std::move(error));
    }
    chat.messages.push_back(std::move(message));
  }
}

void parse_chat_logprobs(Fields& fields, GenerationRequest& out) {
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, 20);
  if (top && !logprobs && *top > 0) fields.fail("top_logprobs", "needs `logprobs`: true");
  if (logprobs) out.top_logprobs = static_cast<std::int32_t>(top.value_or(0));
}

void parse_chat_template(Fields& fields, const ApiLimits& limits, ChatBody& chat) {
  chat.chat_template = fields.string("chat_template");
  if (!chat.chat_template || limits.chat_template) return;
  fields.fail(
      "chat_template",
      "is not taken from requests by this server, as a template is a program; leave it out");
}

}  // namespace

void parse_conversation(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  out.chat = std::make_unique<ChatBody>();
  parse_messages(fields, limits, *out.chat);
  parse_tools(fields, limits, out);
  if (const Json* kwargs = fields.object("chat_template_kwargs")) {
    out.chat->template_kwargs = *kwargs;
  }
  parse_chat_template(fields, limits, *out.chat);
  out.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  out.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  if (out.continue_final_message && out.add_generation_prompt) {
    fields.fail("continue_final_message", "needs `add_generation_prompt`: false");
  }
}

void parse_chat(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_conversation(fields, limits, out);
  parse_chat_logprobs(fields, out);
  out.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  if (fields.boolean("echo").value_or(false)) {
    fields.fail("echo", "is supported by /v1/completions only; leave it out");
  }
  const auto newer = fields.integer("max_completion_tokens", 1, 0x7FFFFFFF);
  if (newer && out.max_tokens && *newer != *out.max_tokens) {
    fields.fail("max_completion_tokens", "differs from `max_tokens`; give one of them");
  }
  if (newer) out.max_tokens = newer;
}

}  // namespace causeway::server
