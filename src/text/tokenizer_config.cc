#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "text/tokenizer_json_fields.h"

namespace causeway::text {
namespace {

const std::string kWhere = "tokenizer_config.json";
const std::string kMapFile = "special_tokens_map.json";
const std::string kAddedFile = "added_tokens.json";

// The roots of the two files that name special tokens.
struct NamingFiles {
  json::Element config;
  std::optional<json::Element> map;  // none where it does not count
};

struct NamedField {
  std::optional<json::Element> value;
  const std::string& file;
};

// What the map has wins, null too.
NamedField field_of(const NamingFiles& files, std::string_view name) {
  json::Element value;
  if (!files.map || files.map->at_key(name).get(value) != simdjson::SUCCESS) {
    return {json::member(files.config, name), kWhere};
  }
  if (value.is_null()) return {std::nullopt, kMapFile};
  return {value, kMapFile};
}

// A token is written as its content or as an object that has it; some files write "" for none.
Result<std::optional<TokenizerConfig::Name>> named_token(const NamingFiles& files,
                                                         std::string_view name) {
  std::optional<TokenizerConfig::Name> named;
  const auto [value, file] = field_of(files, name);
  if (!value) return named;
  const std::string where = file + ": " + std::string(name);
  std::string_view content;
  if (value->is_object()) {
    CAUSEWAY_ASSIGN(content, json::get_string(*value, "content", "", where));
  } else if (value->get(content) != simdjson::SUCCESS) {
    return corrupt(where + " is neither a string nor an object with `content`");
  }
  if (!content.empty()) named = {std::string(content), file};
  return named;
}

// Appends the token unless it is written in no known way: only BOS and EOS must be right.
void add_named_special(json::Element value, std::vector<AddedToken>& specials) {
  AddedToken token;
  std::string_view content;
  if (value.get(content) == simdjson::SUCCESS) {
    token.content = content;
  } else if (auto read = json::added_token(value, kWhere); read.ok()) {
    token = std::move(read).value();
    if (!json::member(value, "normalized")) token.normalized = false;
  }
  token.special = true;
  if (token.content.empty() || token.content.size() > kAddedTokenBytesMax) return;
  specials.push_back(std::move(token));
}

std::vector<AddedToken> named_specials(const NamingFiles& files) {
  std::vector<AddedToken> specials;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    if (const auto field = field_of(files, name); field.value) {
      add_named_special(*field.value, specials);
    }
  }
  // Those of the lists count in either file.
  const auto add_list = [&](json::Element root) {
    for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
      simdjson::dom::array more;
      const auto list = json::member(root, name);
      if (!list || list->get(more) != simdjson::SUCCESS) continue;
      for (const json::Element value : more) add_named_special(value, specials);
    }
  };
  add_list(files.config);
  if (files.map) add_list(*files.map);
  // If a token is named twice the first counts.
  std::stable_sort(specials.begin(), specials.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  const auto same = [](const AddedToken& a, const AddedToken& b) { return a.content == b.content; };
  specials.erase(std::unique(specials.begin(), specials.end(), same), specials.end());
  return specials;
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

bool names_special(const TokenizerConfig& config, std::string_view content) {
  const auto& specials = config.specials;
  const auto found = std::lower_bound(
      specials.begin(), specials.end(), content,
      [](const AddedToken& token, std::string_view wanted) { return token.content < wanted; });
  return found != specials.end() && found->content == content;
}

Status set_named(const std::optional<TokenizerConfig::Name>& name, std::string_view field,
                 const TokenTable& table, std::optional<TokenId>& id) {
  if (!name) return {};
  id = table.contents().find(name->content);
  if (id) return {};
  return corrupt(name->file + ": " + std::string(field) + " '" + name->content +
                 "' is not a token of the vocabulary");
}

Result<json::Element> parse_side_file(simdjson::dom::parser& parser, std::string_view text,
                                      const std::string& file) {
  if (text.empty()) text = "{}";
  CAUSEWAY_ASSIGN(const json::Element root, json::parse(parser, text).with_context(file));
  if (!root.is_object()) return corrupt(file + " is not an object");
  return root;
}

}  // namespace

Result<TokenizerConfig> parse_tokenizer_config(const TokenizerSideFiles& files) {
  TokenizerConfig config;
  simdjson::dom::parser parser, map_parser;
  NamingFiles naming;
  CAUSEWAY_ASSIGN(naming.config, parse_side_file(parser, files.config, kWhere));
  const json::Element root = naming.config;
  if (root.at_key("added_tokens_decoder").error() != simdjson::SUCCESS) {
    CAUSEWAY_ASSIGN(naming.map, parse_side_file(map_parser, files.special_map, kMapFile));
  }
  CAUSEWAY_ASSIGN(config.bos_token, named_token(naming, "bos_token"));
  CAUSEWAY_ASSIGN(config.eos_token, named_token(naming, "eos_token"));
  CAUSEWAY_ASSIGN(config.add_bos_token, flag(root, "add_bos_token"));
  CAUSEWAY_ASSIGN(config.add_eos_token, flag(root, "add_eos_token"));
  CAUSEWAY_ASSIGN(config.legacy, json::get_bool(root, "legacy", true, kWhere));
  CAUSEWAY_TRY(read_added(root, config.added));
  config.specials = named_specials(naming);
  return config;
}

std::vector<AddedToken> special_tokens_of(const TokenizerConfig& config,
                                          const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : config.specials) {
    const auto id = vocabulary.find(token.content);
    if (!id) continue;
    token.id = *id;
    tokens.push_back(std::move(token));
  }
  return tokens;
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
    token.special = names_special(config, token.content);
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
