// A tokenizer around a RankModel, and the two kinds of files that describe one.
//
//   text -> NFC (Qwen v1) -> special tokens split off -> words by an expression -> RankModel -> ids
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/bpe_vocabulary.h"
#include "text/tokenizer_config.h"

namespace causeway::text {

// What a file says.
struct RankVocabulary {
  Vocabulary words;                 // raw bytes
  std::vector<AddedToken> special;  // with ids of their own
  std::string pattern;              // of words
  bool composes = false;            // texts are brought to NFC first
  std::string bos, eos;             // contents of special tokens; "": there is none
  bool add_bos = false;
};

// "<base64> <rank>" a line, ranks from 0 without a gap. The file has neither special tokens nor an
// expression: they are those of Qwen v1, the one family that publishes its vocabulary so.
// kCorrupt names the line.
Result<RankVocabulary> parse_tiktoken(std::string_view text);

// Mistral's tekken.json: ranks from 0 behind `default_num_special_tokens` special ones, of which a
// file may list a part or, up to version 7, none. kCorrupt names the field.
Result<RankVocabulary> parse_tekken(std::string_view json);

// kCorrupt when the parts contradict each other or `config`.
Result<std::unique_ptr<Tokenizer>> make_rank_tokenizer(RankVocabulary vocabulary,
                                                       const TokenizerConfig& config);

}  // namespace causeway::text
