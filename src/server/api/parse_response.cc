// /v1/responses: what it has beside the fields of a chat, or names otherwise.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/chat_body.h"
#include "server/api/json_write.h"
#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr std::size_t kLabelsMax = 16;
constexpr std::int64_t kLabelNameMax = 64, kLabelTextMax = 512;  // in characters

struct Pair {
  std::string_view name, other;
};

// Fields of a chat that this endpoint names differently.
constexpr std::array<Pair, 6> kNamedOtherwise = {{{"messages", "input"},
                                                  {"max_tokens", "max_output_tokens"},
                                                  {"max_completion_tokens", "max_output_tokens"},
                                                  {"response_format", "text.format"},
                                                  {"logprobs", "include"},
                                                  {"reasoning_effort", "reasoning.effort"}}};

// Members of `reasoning`, with the one value each that asks for what is done in any case.
constexpr std::array<Pair, 5> kReasoning = {{{"effort", "medium"},
                                             {"summary", "auto"},
                                             {"generate_summary", "auto"},
                                             {"context", "auto"},
                                             {"mode", "standard"}}};

constexpr std::string_view kLogprobs = "message.output_text.logprobs";
// Values of `include` that are accepted and do nothing: no answer of this server has such items.
constexpr std::array<std::string_view, 7> kNeverThere = {"file_search_call.results",
                                                         "web_search_call.results",
                                                         "web_search_call.action.sources",
                                                         "message.input_image.image_url",
                                                         "computer_call_output.output.image_url",
                                                         "code_interpreter_call.outputs",
                                                         "reasoning.encrypted_content"};

// `store` has an effect only where the server keeps answers; elsewhere it is passed over, and the
// answer says "store": false.
void parse_store(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  if (!limits.keeps_responses) return;
  out.store = fields.boolean("store").value_or(true);
  const auto previous = fields.string("previous_response_id");
  if (previous && previous->empty()) fields.fail("previous_response_id", "must name a response");
  out.previous_response = previous.value_or("");
}

void refuse_others(Fields& fields, const ApiLimits& limits) {
  for (const std::string_view name : {"conversation", "prompt"}) {
    if (fields.value(name) == nullptr) continue;
    fields.fail(name,
                "names what is stored beside answers, and this server stores none of it; send it "
                "as `input`");
  }
  if (!limits.keeps_responses && fields.value("previous_response_id") != nullptr) {
    fields.fail("previous_response_id",
                "names what was stored before, and this server stores nothing; send the whole "
                "conversation as `input`");
  }
  for (const auto& [name, other] : kNamedOtherwise) {
    if (fields.value(name) == nullptr) continue;
    fields.fail(
        name, "is a field of /v1/chat/completions; /v1/responses has `" + std::string(other) + "`");
  }
  for (const std::string_view name :
       {"prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids"}) {
    const Json* value = fields.value(name);
    if (value == nullptr || *value == false) continue;
    fields.fail(name, "is told by /v1/chat/completions and /v1/completions only; leave it out");
  }
}

void parse_include(Fields& fields, GenerationRequest& out) {
  const Json* include = fields.value("include");
  if (include != nullptr && !include->is_array()) return fields.fail("include", "must be a list");
  bool logprobs = false;
  for (std::size_t i = 0; include != nullptr && i < include->size() && !fields.failed(); ++i) {
    const auto* name = (*include)[i].get_ptr<const std::string*>();
    const bool harmless = name != nullptr && std::find(kNeverThere.begin(), kNeverThere.end(),
                                                       *name) != kNeverThere.end();
    if (name != nullptr && *name == kLogprobs) {
      logprobs = true;
    } else if (!harmless) {
      fields.fail("include", "can have \"" + std::string(kLogprobs) + "\" only");
    }
  }
  const auto top = fields.integer("top_logprobs", 0, request::kTopLogprobsMax);
  if (top && *top > 0 && !logprobs) {
    fields.fail("top_logprobs", "needs `include`: [\"" + std::string(kLogprobs) + "\"]");
  }
  if (!logprobs) return;
  out.top_logprobs = static_cast<std::int32_t>(top.value_or(0));
  // Where calls are taken out of the text it is not known which tokens are left of it.
  if (out.calls_tools) {
    fields.fail("include", "cannot have log-probabilities where there are `tools`");
  }
}

void parse_reasoning(Fields& fields) {
  const Json* value = fields.object("reasoning");
  if (value == nullptr) return;
  Fields reasoning(*value, "reasoning.");
  for (const auto& [name, neutral] : kReasoning) {
    const auto given = reasoning.string(name);
    if (!given || *given == neutral) continue;
    reasoning.fail(name, "is not supported by this server except \"" + std::string(neutral) +
                             "\"; what the model's template knows of reasoning is set by "
                             "`chat_template_kwargs`");
  }
  reasoning.reject_rest();
  if (reasoning.failed()) fields.fail(*reasoning.error());
}

void parse_cache_options(Fields& fields) {
  const Json* value = fields.object("prompt_cache_options");
  if (value == nullptr) return;
  Fields options(*value, "prompt_cache_options.");
  (void)options.string("mode");
  (void)options.string("ttl");
  options.reject_rest();
  if (options.failed()) fields.fail(*options.error());
}

void check_labels(Fields& fields) {
  const Json* labels = fields.object("metadata");
  if (labels == nullptr) return;
  bool fits = labels->size() <= kLabelsMax;
  for (const auto& [name, text] : labels->items()) {
    fits = fits && text.is_string() && utf8_characters(name) <= kLabelNameMax &&
           utf8_characters(text.get_ref<const std::string&>()) <= kLabelTextMax;
  }
  if (fits) return;
  fields.fail("metadata", "must be at most 16 strings of 512 characters, their names of 64");
}

// The members of the answer that repeat the request: as they were sent, or with the only value that
// this server knows.
std::string echo_of(Fields& fields, const GenerationRequest& asked) {
  std::string out = R"("background":false,"reasoning":{"effort":null,"summary":null},)"
                    R"("service_tier":"default","truncation":"disabled","store":)";
  out += asked.store ? "true" : "false";
  out += ",\"previous_response_id\":";
  if (asked.previous_response.empty()) {
    out += "null";
  } else {
    append_json_string(out, asked.previous_response);
  }
  constexpr std::array<Pair, 8> kTold = {{{"instructions", "null"},
                                          {"max_output_tokens", "null"},
                                          {"max_tool_calls", "null"},
                                          {"metadata", "{}"},
                                          {"parallel_tool_calls", "true"},
                                          {"tool_choice", "\"auto\""},
                                          {"tools", "[]"},
                                          {"top_logprobs", "0"}}};
  for (const auto& [name, otherwise] : kTold) {
    const Json* value = fields.value(name);
    out += ",\"" + std::string(name) + "\":";
    out += value == nullptr ? std::string(otherwise) : value->dump();
  }
  const Json* text = fields.object("text");
  Json told = text == nullptr ? Json::object() : *text;
  if (told.find("format") == told.end() || told["format"].is_null()) {
    told["format"] = Json{{"type", "text"}};
  }
  return out + ",\"text\":" + json_text(told);
}

}  // namespace

void parse_response(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_store(fields, limits, out);
  refuse_others(fields, limits);
  parse_input(fields, limits, out);
  parse_tools(fields, limits, out);
  parse_include(fields, out);
  parse_reasoning(fields);
  parse_cache_options(fields);
  check_labels(fields);
  if (const Json* kwargs = fields.object("chat_template_kwargs")) {
    out.chat->template_kwargs = *kwargs;
  }
  if (!fields.failed()) out.response_echo = echo_of(fields, out);
}

}  // namespace causeway::server
