#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "text/tokenizer_json_fields.h"

namespace causeway::text {
namespace {

const std::string kWhere = "tokenizer_config.json";
const std::string kAddedFile = "added_tokens.json";

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

// The contents of all special tokens that are written as they should be: more than BOS and EOS are
// needed only to tell what is special in added_tokens.json.
std::vector<std::string> special_names(json::Element root) {
  std::vector<std::string> names;
  const auto add = [&](json::Element value) {
    std::string_view content;
    const json::Element text = json::member(value, "content").value_or(value);
    if (text.get(content) == simdjson::SUCCESS) names.emplace_back(content);
  };
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    if (const auto value = json::member(root, name)) add(*value);
  }
  simdjson::dom::array more;
  const auto list = json::member(root, "additional_special_tokens");
  if (list && list->get(more) == simdjson::SUCCESS) std::for_each(more.begin(), more.end(), add);
  std::sort(names.begin(), names.end());
  return names;
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
  config.special_names = special_names(root);
  return config;
}

Result<std::vector<AddedToken>> parse_added_tokens(std::string_view text,
                                                   const TokenizerConfig& config) {
  std::vector<AddedToken> added;
  if (text.empty()) return added;
  simdjson::dom::parser parser;
  CAUSEWAY_ASSIGN(const json::Element root, json::parse(parser, text).with_context(kAddedFile));
  simdjson::dom::object tokens;
  if (root.get(tokens) != simdjson::SUCCESS) return corrupt(kAddedFile + " is not an object");
  Vocabulary listed;
  for (const AddedToken& token : config.added) listed.add(token.id, token.content);
  for (const auto& [content, value] : tokens) {
    if (content.empty() || content.size() > kAddedTokenBytesMax) {
      return corrupt(kAddedFile + ": a token of " + std::to_string(content.size()) +
                     " bytes; 1 to " + std::to_string(kAddedTokenBytesMax) + " are supported");
    }
    AddedToken token;
    token.content = content;
    CAUSEWAY_ASSIGN(token.id, json::token_id(value, kAddedFile + ": '" + token.content + "'"));
    if (listed.content(token.id) == content) continue;
    if (!listed.add(token.id, content)) {
      return corrupt(kAddedFile + ": '" + token.content + "' or its id " +
                     std::to_string(token.id) + " stands for something else there or in " + kWhere);
    }
    token.special =
        std::binary_search(config.special_names.begin(), config.special_names.end(), token.content);
    added.push_back(std::move(token));
  }
  return added;
}

Status add_listed_tokens(const std::vector<AddedToken>& tokens, const std::string& where,
                         TokenTable& table, std::vector<AddedToken>& added) {
  for (const AddedToken& token : tokens) {
    if (table.contents().content(token.id) == token.content) {
      const bool listed = table.is_special(token.id);
      if (token.special) table.set_special(token.id);
      if (!listed) added.push_back(token);
    } else if (table.add(token.id, token.content, token.content)) {
      if (token.special) table.set_special(token.id);
      added.push_back(token);
    } else {
      return corrupt(where + ": '" + token.content + "' with id " + std::to_string(token.id) +
                     " contradicts the vocabulary");
    }
  }
  return {};
}

Status apply_names(const TokenizerConfig& config, TokenTable& table) {
  CAUSEWAY_TRY(set_named(config.bos_token, "bos_token", table, table.bos));
  return set_named(config.eos_token, "eos_token", table, table.eos);
}

Status apply_config(const TokenizerConfig& config, TokenTable& table) {
  CAUSEWAY_TRY(apply_names(config, table));
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
