// What a chat's choice says: its reasoning, its text and its calls of tools, as events and whole.
#include <utility>

#include "base/random.h"
#include "server/api/answer_parts.h"
#include "server/api/answer_writer.h"
#include "server/api/json_write.h"

namespace causeway::server {

// Mistral's templates want nine letters and digits.
std::string call_id(std::uint64_t seed, int call, text::ToolCallFormat format) {
  static constexpr std::string_view kSigns =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const bool mistral =
      format == text::ToolCallFormat::kMistral || format == text::ToolCallFormat::kMistralArgs;
  std::string out = mistral ? "" : "call_";
  std::uint64_t bits = mix64(mix64(seed) + static_cast<std::uint64_t>(call));
  for (int i = 0; i < 9; ++i) {
    out += kSigns[bits % kSigns.size()];
    bits /= kSigns.size();
  }
  return out;
}

// The first piece of a call has its id and name; a whole call is one piece, and has no index.
void AnswerWriter::append_calls(std::string& out, const ChoiceText& choice, bool event) const {
  out += "\"tool_calls\":[";
  for (const text::ToolCallDelta& call : choice.calls) {
    out += &call == choice.calls.data() ? "{" : ",{";
    if (event) {
      out += "\"index\":";
      append_json_integer(out, call.index);
      out += ',';
    }
    if (!call.name.empty()) {
      out += "\"id\":";
      append_json_string(out, call_id(call_ids_ + choice.index, call.index, tool_calls_));
      out += ",\"type\":\"function\",";
    }
    out += "\"function\":{";
    if (!call.name.empty()) {
      out += "\"name\":";
      append_json_string(out, call.name);
      out += ',';
    }
    out += "\"arguments\":";
    append_json_string(out, call.arguments);
    out += "}}";
  }
  out += ']';
}

void AnswerWriter::append_delta(std::string& out, const ChoiceText& choice) const {
  out += ",\"delta\":{";
  std::string_view comma;
  const auto append_text = [&](std::string_view name, std::string_view text) {
    if (text.empty()) return;
    out += std::exchange(comma, ",");
    out += name;
    append_json_string(out, text);
  };
  append_text("\"reasoning_content\":", choice.reasoning);
  append_text("\"content\":", choice.text);
  if (!choice.calls.empty()) {
    out += comma;
    append_calls(out, choice, true);
  }
  out += '}';
}

void AnswerWriter::append_message(std::string& out, const ChoiceText& choice) const {
  out += R"(,"message":{"role":"assistant","content":)";
  if (choice.text.empty() && !(choice.calls.empty() && choice.reasoning.empty())) {
    out += "null";
  } else {
    append_json_string(out, choice.text);
  }
  if (reasoning_) {
    out += ",\"reasoning_content\":";
    choice.reasoning.empty() ? (void)(out += "null") : append_json_string(out, choice.reasoning);
  }
  out += ",\"refusal\":null";
  if (!choice.calls.empty()) {
    out += ',';
    append_calls(out, choice, false);
  }
  out += '}';
}

}  // namespace causeway::server
