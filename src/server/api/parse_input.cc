// What a response answers: `instructions`, and items of `input`, as the messages that a template
// reads.
//
//   instructions                      → {role: system}
//   message                           → a message of its role
//   reasoning                         → reasoning_content of the assistant's message that follows,
//                                       or of an empty one
//   function_call, one or several     → tool_calls of the assistant's message before it, or of one
//   function_call_output              → {role: tool, tool_call_id}
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "server/api/chat_body.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr std::array<std::string_view, 4> kInputRoles = {"user", "assistant", "system",
                                                         "developer"};

using PartTypes = std::array<std::string_view, 2>;
constexpr PartTypes kTextParts = {"input_text", "output_text"};
constexpr PartTypes kReasoningParts = {"reasoning_text", "text"};

// Passes over the labels that items of an earlier answer have.
void skip_labels(Fields& item) {
  (void)item.string("id");
  (void)item.string("status");
}

// One part of a list of texts. `types`: those that it may have.
std::string part_text(Fields& item, std::string_view name, const Json& part, PartTypes types) {
  if (!part.is_object()) {
    item.fail(name, "must be a string or a list of parts");
    return {};
  }
  Fields fields(part, item.prefix() + std::string(name) + ": ");
  const auto type = fields.string("type");
  if (!type || std::find(types.begin(), types.end(), *type) == types.end()) {
    item.fail(name, "has a part that is of no type of text (" + std::string(types[0]) + ", " +
                        std::string(types[1]) + "), which is not supported");
    return {};
  }
  const auto text = fields.string("text");
  if (!text) fields.fail("text", "must be a string");
  // What earlier answers carry for their readers, and hints for a cache: neither is for the model.
  for (const std::string_view mark : {"annotations", "logprobs", "prompt_cache_breakpoint"}) {
    fields.value(mark);
  }
  fields.reject_rest();
  if (fields.failed()) item.fail(name, "has a part that is not {type, text}");
  return text.value_or("");
}

// Parts are joined by newlines, as those of a chat's message are.
std::string joined_text(Fields& item, std::string_view name, PartTypes types = kTextParts) {
  const Json* value = item.value(name);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  std::string out;
  if (value == nullptr || !value->is_array() || value->empty()) {
    item.fail(name, "must be a string or a list of parts that are text");
    return out;
  }
  for (const Json& part : *value) {
    if (item.failed()) break;
    if (&part != &value->front()) out += '\n';
    out += part_text(item, name, part, types);
  }
  return out;
}

class InputItems {
 public:
  InputItems(const ApiLimits& limits, Json& messages) : limits_(limits), messages_(messages) {}

  // The error names the item's field.
  MaybeError add(const Json& item, const std::string& path);
  // Reasoning that no message or call of the assistant's follows was cut before it said anything.
  void end_reasoning() {
    if (!reasoning_.empty()) push("assistant", "");
  }

 private:
  void add_message(Fields& item);
  void add_call(Fields& item);
  void add_output(Fields& item);
  void add_reasoning(Fields& item);
  Json& push(const std::string& role, std::string content);

  const ApiLimits& limits_;
  Json& messages_;
  std::string reasoning_;  // of the assistant's message that comes next
};

Json& InputItems::push(const std::string& role, std::string content) {
  Json message = {{"role", role}, {"content", std::move(content)}};
  if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  messages_.push_back(std::move(message));
  return messages_.back();
}

MaybeError InputItems::add(const Json& item, const std::string& path) {
  if (!item.is_object()) return bad_request("`" + path + "` must be an object", path);
  Fields fields(item, path + ".");
  const auto type = fields.string("type").value_or(item.contains("role") ? "message" : "");
  const bool of_assistant = type == "function_call" || type == "reasoning" ||
                            (type == "message" && item.value("role", Json()) == "assistant");
  if (!of_assistant) end_reasoning();
  if (type == "message") {
    add_message(fields);
  } else if (type == "function_call") {
    add_call(fields);
  } else if (type == "function_call_output") {
    add_output(fields);
  } else if (type == "reasoning") {
    add_reasoning(fields);
  } else if (type == "item_reference") {
    fields.fail("type", "refers to a stored item, and this server stores nothing; send the item");
  } else {
    fields.fail("type",
                "must be message, function_call, function_call_output or reasoning; others are "
                "not supported");
  }
  fields.reject_rest();
  return fields.error();
}

void InputItems::add_message(Fields& item) {
  const std::string role = item.string("role").value_or("");
  if (std::find(kInputRoles.begin(), kInputRoles.end(), role) == kInputRoles.end()) {
    return item.fail("role", "must be one of user, assistant, system, developer");
  }
  skip_labels(item);
  (void)item.string("phase");
  std::string text = joined_text(item, "content");
  push(role, std::move(text));
}

void InputItems::add_call(Fields& item) {
  skip_labels(item);
  const auto id = item.string("call_id");
  if (!id) item.fail("call_id", "must name the call");
  const std::string name = parse_tool_name(item, limits_);
  Json arguments;
  parse_arguments(item, limits_, arguments);
  if (item.failed()) return;
  const bool goes_on =
      !messages_.empty() && messages_.back()["role"] == "assistant" && reasoning_.empty();
  Json& message = goes_on ? messages_.back() : push("assistant", "");
  Json& calls = message["tool_calls"];
  if (calls.size() >= limits_.tools_max) {
    return item.fail(
        "type", "is one of more than " + std::to_string(limits_.tools_max) + " calls in a row");
  }
  Json function = {{"name", name}, {"arguments", std::move(arguments)}};
  calls.push_back(Json{{"id", *id}, {"type", "function"}, {"function", std::move(function)}});
}

void InputItems::add_output(Fields& item) {
  skip_labels(item);
  const auto id = item.string("call_id");
  if (!id) item.fail("call_id", "must name the call that this answers");
  const auto name = item.string("name");
  std::string text = joined_text(item, "output");
  if (item.failed()) return;
  Json& message = push("tool", std::move(text));
  message["tool_call_id"] = *id;
  if (name) message["name"] = *name;
}

void InputItems::add_reasoning(Fields& item) {
  skip_labels(item);
  const Json* summary = item.value("summary");
  const bool summarised = summary != nullptr && !(summary->is_array() && summary->empty());
  if (item.value("content") != nullptr) {
    reasoning_ += joined_text(item, "content", kReasoningParts);
  } else if (summarised) {
    item.fail("summary", "is not what the model wrote; send `content`, or leave the item out");
  }
  if (item.value("encrypted_content") != nullptr) {
    item.fail("encrypted_content", "cannot be read by this server; leave the item out");
  }
}

}  // namespace

MaybeError add_items(const Json& items, const std::string& name, const ApiLimits& limits,
                     Json& messages) {
  InputItems adder(limits, messages);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (auto error = adder.add(items[i], name + "[" + std::to_string(i) + "]")) return error;
  }
  adder.end_reasoning();
  return {};
}

void parse_input(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  out.chat = std::make_unique<ChatBody>();
  Json& messages = out.chat->messages;
  const auto instructions = fields.string("instructions");
  if (instructions) messages.push_back(Json{{"role", "system"}, {"content", *instructions}});
  out.chat->instructed = instructions.has_value();
  const Json* input = fields.value("input");
  if (input != nullptr && input->is_string()) {
    messages.push_back(Json{{"role", "user"}, {"content", *input}});
    return;
  }
  if (input == nullptr || !input->is_array() || input->empty()) {
    return fields.fail("input", "must be a string or a list of at least one item");
  }
  if (fields.failed()) return;
  if (auto error = add_items(*input, "input", limits, messages)) {
    fields.fail(*std::move(error));
  } else if (input->back().value("type", Json()) == "reasoning") {
    fields.fail("input", "ends with reasoning; send what follows it, too");
  }
}

}  // namespace causeway::server
