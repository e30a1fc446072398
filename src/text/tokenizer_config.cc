#include "text/tokenizer_config.h"

#include <charconv>

#include "text/tokenizer_json_fields.h"

namespace causeway::text {
namespace {

const std::string kWhere = "tokenizer_config.json";

// A token is written as its content or as an object that has it; some files write "" for none.
Result<std::optional<std::string>> token_field(json::Element root, std::string_view name) {
  const auto value = json::member(root, name);
  if (!value) return std::optional<std::string>();
  const std::string where = kWhere + ": " + std::string(name);
  std::string_view content;
  if (value->is_object()) {
    CAUSEWAY_ASSIGN(content, json::get_string(*value, "content", "", where));
  } else if (value->get(content) != simdjson::SUCCESS) {
    return corrupt(where + " is neither a string nor an object with `content`");
  }
  if (content.empty()) return std::optional<std::string>();
  return std::optional<std::string>(content);
}

Result<std::optional<bool>> flag(json::Element root, std::string_view name) {
  if (!json::member(root, name)) return std::optional<bool>();
  CAUSEWAY_ASSIGN(const bool value, json::get_bool(root, name, false, kWhere));
  return std::optional<bool>(value);
}

Status read_added(json::Element root, std::vector<AddedToken>& added) {
  if (!json::member(root, "added_tokens_decoder")) return {};
  CAUSEWAY_ASSIGN(const auto tokens, json::get_object(root, "added_tokens_decoder", kWhere));
  for (const auto& [key, value] : tokens) {
    const std::string where = kWhere + ": added_tokens_decoder[" + std::string(key) + "]";
    CAUSEWAY_ASSIGN(AddedToken token, json::added_token(value, where));
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 ||
        id >= kVocabularyIdsMax) {
      return corrupt(where + " is not an id from 0 to " + std::to_string(kVocabularyIdsMax - 1));
    }
    token.id = static_cast<TokenId>(id);
    added.push_back(std::move(token));
  }
  return {};
}

Status set_named(const std::optional<std::string>& content, std::string_view field,
                 const TokenTable& table, std::optional<TokenId>& id) {
  if (!content) return {};
  id = table.contents().find(*content);
  if (id) return {};
  return corrupt(kWhere + ": " + std::string(field) + " '" + *content +
                 "' is not a token of the vocabulary");
}

}  // namespace

Result<TokenizerConfig> parse_tokenizer_config(std::string_view text) {
  TokenizerConfig config;
  if (text.empty()) return config;
  simdjson::dom::parser parser;
  CAUSEWAY_ASSIGN(const json::Element root, json::parse(parser, text).with_context(kWhere));
  if (!root.is_object()) return corrupt(kWhere + " is not an object");
  CAUSEWAY_ASSIGN(config.bos_token, token_field(root, "bos_token"));
  CAUSEWAY_ASSIGN(config.eos_token, token_field(root, "eos_token"));
  CAUSEWAY_ASSIGN(config.add_bos_token, flag(root, "add_bos_token"));
  CAUSEWAY_ASSIGN(config.add_eos_token, flag(root, "add_eos_token"));
  CAUSEWAY_ASSIGN(config.legacy, json::get_bool(root, "legacy", true, kWhere));
  CAUSEWAY_TRY(read_added(root, config.added));
  return config;
}

Status apply_config(const TokenizerConfig& config, TokenTable& table) {
  CAUSEWAY_TRY(set_named(config.bos_token, "bos_token", table, table.bos));
  CAUSEWAY_TRY(set_named(config.eos_token, "eos_token", table, table.eos));
  auto& prefix = table.prefix;
  auto& suffix = table.suffix;
  if (config.add_bos_token && table.bos) {
    std::erase(prefix, *table.bos);
    if (*config.add_bos_token) prefix.insert(prefix.begin(), *table.bos);
  }
  if (config.add_eos_token && table.eos) {
    std::erase(suffix, *table.eos);
    if (*config.add_eos_token) suffix.push_back(*table.eos);
  }
  return {};
}

}  // namespace causeway::text
