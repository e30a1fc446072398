#include "server/api/tokenize.h"

#include <nlohmann/json.hpp>

#include "server/api/chat_body.h"
#include "server/api/json_write.h"
#include "server/api/parse_parts.h"
#include "server/api/prepare.h"
#include "text/detokenizer.h"

namespace causeway::server {
namespace {

struct Tokenize {
  GenerationRequest prompt;  // as a generation would have it
  bool return_token_strs = false;
};

void parse_optional_model(Fields& fields, std::string& out) {
  if (fields.value("model") != nullptr) parse_model(fields, out);
}

void parse_text(Fields& fields, GenerationRequest& out) {
  const auto text = fields.string("prompt");
  if (!text) return fields.fail("prompt", "must be a string; or give `messages`");
  out.endpoint = Endpoint::kCompletions;
  out.prompts.emplace_back(*text);
}

MaybeError parse_tokenize(std::string_view body, const ApiLimits& limits, Tokenize& out) {
  Json json;
  if (auto error = parse_object(body, limits, json)) return error;
  Fields fields(json);
  parse_optional_model(fields, out.prompt.model);
  const bool chat = fields.value("messages") != nullptr;
  if (chat && fields.value("prompt") != nullptr) {
    fields.fail("prompt", "and `messages` exclude each other");
  }
  if (chat) {
    parse_conversation(fields, limits, out.prompt);
  } else {
    parse_text(fields, out.prompt);
  }
  out.prompt.add_special_tokens = fields.boolean("add_special_tokens");
  out.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  fields.reject_rest();
  return fields.error();
}

// An answer may be many times the size of its request, which may have megabytes.
MaybeError check_size(const std::string& out, const ApiLimits& limits, std::string_view field) {
  if (out.size() <= limits.tokenize_bytes_max) return {};
  return bad_request(
      "the answer would be larger than " + std::to_string(limits.tokenize_bytes_max) + " bytes",
      std::string(field));
}

template <typename AppendOne>
MaybeError append_list(const std::vector<TokenId>& tokens, const ApiLimits& limits,
                       std::string_view field, std::string& out, AppendOne append_one) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_one(tokens[i]);
    if (auto error = check_size(out, limits, field)) return error;
  }
  out += ']';
  return {};
}

// Without a name: the only model of the catalogue, if it has only one.
MaybeError find_model(std::string_view name, const fleet::Fleet& fleet,
                      const fleet::CatalogueEntry*& out) {
  if (name.empty()) {
    const auto all = fleet.catalogue();
    if (all.size() != 1) {
      return bad_request("`model` must name a model: there are " + std::to_string(all.size()),
                         "model");
    }
    out = all.front();
    return {};
  }
  out = fleet.find(name);
  if (out == nullptr) return model_not_found(name);
  return {};
}

MaybeError parse_detokenize(std::string_view body, const ApiLimits& limits, std::string& model,
                            std::vector<TokenId>& tokens) {
  Json json;
  if (auto error = parse_object(body, limits, json)) return error;
  Fields fields(json);
  parse_optional_model(fields, model);
  const Json* list = fields.value("tokens");
  if (list == nullptr || !to_tokens(*list, tokens)) {
    fields.fail("tokens", "must be a list of token ids");
  }
  fields.reject_rest();
  return fields.error();
}

}  // namespace

MaybeError answer_tokenize(std::string_view body, const TokenizeContext& context,
                           std::string& out) {
  Tokenize asked;
  if (auto error = parse_tokenize(body, context.limits, asked)) return error;
  const fleet::CatalogueEntry* model = nullptr;
  if (auto error = find_model(asked.prompt.model, context.fleet, model)) return error;
  EncodedPrompt prompt;
  const PromptOf wanted{.asked = asked.prompt,
                        .model = *model,
                        .now_unix_seconds = context.now_unix_seconds,
                        .whole = true};
  if (auto error = encode_prompt(wanted, prompt)) return error;
  const std::vector<TokenId>& tokens = prompt.tokens;
  const std::string_view field = asked.prompt.endpoint == Endpoint::kChat ? "messages" : "prompt";
  out += "{\"count\":";
  append_json_integer(out, std::ssize(tokens));
  out += ",\"max_model_len\":";
  append_json_integer(out, model->max_model_len.count);
  out += ",\"tokens\":";
  if (auto error = append_list(tokens, context.limits, field, out,
                               [&](TokenId id) { append_json_integer(out, id); })) {
    return error;
  }
  out += ",\"token_strs\":";
  if (!asked.return_token_strs) {
    out += "null}";
    return {};
  }
  const text::Tokenizer& tokenizer = *model->tokenizer;
  auto error = append_list(tokens, context.limits, field, out,
                           [&](TokenId id) { append_json_token(out, tokenizer.token_bytes(id)); });
  out += '}';
  return error;
}

MaybeError answer_detokenize(std::string_view body, const TokenizeContext& context,
                             std::string& out) {
  std::string name;
  std::vector<TokenId> tokens;
  if (auto error = parse_detokenize(body, context.limits, name, tokens)) return error;
  const fleet::CatalogueEntry* model = nullptr;
  if (auto error = find_model(name, context.fleet, model)) return error;
  text::Detokenizer detokenizer(*model->tokenizer);
  std::string prompt;
  for (const TokenId id : tokens) {
    if (auto error = check_token("tokens", id, *model)) return error;
    prompt += detokenizer.push(id, /*skip_special=*/false);
    if (auto error = check_size(prompt, context.limits, "tokens")) return error;
  }
  prompt += detokenizer.finish();
  out += "{\"prompt\":";
  append_json_string(out, prompt);
  out += '}';
  return {};
}

}  // namespace causeway::server
