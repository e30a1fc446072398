// tokenizer_config.json and special_tokens_map.json, as far as encoding and decoding depend on
// them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_added.h"
#include "text/tokenizer_table.h"

namespace causeway::text {

struct TokenizerConfig {
  struct Name {
    std::string content;
    std::string file;  // that says so
  };
  std::optional<Name> bos_token;
  std::optional<Name> eos_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  bool legacy = true;             // SentencePiece: a space before every stretch, not the first only
  std::vector<AddedToken> added;  // added_tokens_decoder
  // What it names as special: bos_token, pad_token, … By content, without ids.
  std::vector<AddedToken> specials;
};

// As in transformers, special_tokens_map.json counts only when tokenizer_config.json has no
// added_tokens_decoder; then what it names wins. kCorrupt names the file and the field.
Result<TokenizerConfig> parse_tokenizer_config(const TokenizerSideFiles& files);

// Those of `specials` that are in the vocabulary, with their ids; new ones are not made.
std::vector<AddedToken> special_tokens_of(const TokenizerConfig& config,
                                          const Vocabulary& vocabulary);

// added_tokens.json, {"content": id}: what it has beyond the configuration's `added`. A token is
// special when the configuration names it so. "" has none. kCorrupt names the token.
Result<std::vector<AddedToken>> parse_added_tokens(std::string_view json,
                                                   const TokenizerConfig& config);

// Puts `tokens`, of the file that `where` names, into the table, and into `added` those that texts
// are not searched for yet: special ones of the table are. kCorrupt when one contradicts the table.
Status add_listed_tokens(const std::vector<AddedToken>& tokens, const std::string& where,
                         TokenTable& table, std::vector<AddedToken>& added);

// Sets the table's bos and eos as the configuration asks; what it leaves open stays. kCorrupt when
// a token that it names is not in the table.
Status apply_names(const TokenizerConfig& config, TokenTable& table);
// The same, and whether they are put around a text: where there is no post-processor to say so.
Status apply_config(const TokenizerConfig& config, TokenTable& table);

}  // namespace causeway::text
