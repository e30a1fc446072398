#include <limits>
#include <nlohmann/json.hpp>

#include "server/api/parse_parts.h"

namespace causeway::server {
namespace {

constexpr std::string_view kPromptForm =
    "must be a string, a list of strings, a list of token ids, or a list of such lists, none empty";

bool is_token(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<std::uint64_t>() <= std::numeric_limits<TokenId>::max();
}

bool add_prompt(const Json& value, GenerationRequest& out) {
  if (value.is_string()) {
    out.prompts.emplace_back(value.get<std::string>());
    return true;
  }
  std::vector<TokenId> tokens;
  if (!to_tokens(value, tokens) || tokens.empty()) return false;
  out.prompts.emplace_back(std::move(tokens));
  return true;
}

}  // namespace

void parse_prompts(Fields& fields, std::string_view name, std::size_t most,
                   GenerationRequest& out) {
  const Json* prompt = fields.value(name);
  if (prompt == nullptr) return fields.fail(name, kPromptForm);
  const bool one = prompt->is_string() ||
                   (prompt->is_array() && !prompt->empty() && prompt->front().is_number());
  if (one) {
    if (!add_prompt(*prompt, out)) fields.fail(name, kPromptForm);
    return;
  }
  if (!prompt->is_array() || prompt->empty()) return fields.fail(name, kPromptForm);
  if (prompt->size() > most) {
    return fields.fail(name, "has more than " + std::to_string(most) + " prompts");
  }
  for (const Json& value : *prompt) {
    if (!add_prompt(value, out)) return fields.fail(name, kPromptForm);
  }
}

bool to_tokens(const Json& list, std::vector<TokenId>& out) {
  if (!list.is_array()) return false;
  out.reserve(list.size());
  for (const Json& value : list) {
    if (!is_token(value)) return false;
    out.push_back(value.get<TokenId>());
  }
  return true;
}

void parse_completion(Fields& fields, const ApiLimits& limits, GenerationRequest& out) {
  parse_prompts(fields, "prompt", static_cast<std::size_t>(limits.choices_max), out);
  if (const auto logprobs = fields.integer("logprobs", 0, 20)) {
    out.top_logprobs = static_cast<std::int32_t>(*logprobs);
  }
  if (fields.boolean("continue_final_message").value_or(false)) {
    fields.fail("continue_final_message", "is of chats; a completion goes on by itself");
  }
  out.echo = fields.boolean("echo").value_or(false);
  if (out.echo_only() && !out.echo) {
    fields.fail("max_tokens", "must be from 1 to 2147483647; 0 needs `echo`");
  }
}

}  // namespace causeway::server
