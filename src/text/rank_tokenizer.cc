#include "text/rank_tokenizer.h"

#include "text/bpe_model.h"
#include "text/pretokenize.h"
#include "text/rank_model.h"
#include "text/tokenizer_normalize.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

struct RankParts {
  TokenTable table;
  std::vector<AddedToken> added;
  PreTokenizer pre_tokenizer;
  bool composes = false;
};

class RankTokenizer final : public TableTokenizer {
 public:
  RankTokenizer(RankParts parts, RankModel model)
      : TableTokenizer(std::move(parts.table), {}),
        added_(std::move(parts.added)),
        pre_tokenizer_(std::move(parts.pre_tokenizer)),
        composes_(parts.composes),
        model_(std::move(model)) {}

 private:
  // The whole text: special tokens are looked for in what composing it gives.
  Status encode_text(std::string_view text, bool first, Scratch& scratch,
                     std::vector<TokenId>& ids) const override {
    std::string composed;
    if (composes_ && compose_nfc(text, composed)) text = composed;
    scratch.parts.clear();
    added_.split(text, scratch.parse_special, scratch.parts);
    Words words;
    const std::size_t longest = model_.token_bytes_max();
    for (const Segment& part : scratch.parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      if (scratch.limit.exceeded(ids, part.text.size(), longest)) return {};
      CAUSEWAY_TRY(pre_tokenizer_.split(part.text, first, words));
      for (const std::string_view word : words.pieces) {
        if (scratch.limit.exceeded(ids, word.size(), longest)) return {};
        model_.encode_word(word, scratch.merge, ids);
      }
    }
    return {};
  }

  AddedTokenMatcher added_;
  PreTokenizer pre_tokenizer_;
  bool composes_;
  RankModel model_;
};

std::string spelling_of(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(spelling_of_byte(static_cast<unsigned char>(byte)), out);
  }
  return out;
}

Status fill_table(const RankVocabulary& vocabulary, TokenTable& table) {
  for (const AddedToken& token : vocabulary.special) {
    if (!table.add(token.id, token.content, token.content)) {
      return corrupt("the special token '" + token.content + "' or its id " +
                     std::to_string(token.id) + " occurs twice");
    }
    table.set_special(token.id);
  }
  for (std::int64_t i = 0; i < vocabulary.words.ids_end(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.words.contains(id)) continue;
    const std::string_view bytes = vocabulary.words.content(id);
    const std::string spelling = spelling_of(bytes);
    // A word that spells like a special token is not found by its content: that one is.
    if (!table.add(id, spelling, bytes) && !table.add(id, '\xFF' + spelling, bytes)) {
      return corrupt("two tokens have id " + std::to_string(id));
    }
  }
  return {};
}

Status set_named(const RankVocabulary& vocabulary, TokenTable& table) {
  for (const auto& [content, id] :
       {std::pair(&vocabulary.bos, &table.bos), std::pair(&vocabulary.eos, &table.eos)}) {
    if (content->empty()) continue;
    *id = table.contents().find(*content);
    if (!*id) return corrupt("there is no special token '" + *content + "'");
  }
  if (vocabulary.add_bos && table.bos) table.prefix = {*table.bos};
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_rank_tokenizer(RankVocabulary vocabulary,
                                                       const TokenizerConfig& config) {
  RankParts parts;
  parts.composes = vocabulary.composes;
  CAUSEWAY_ASSIGN(Pattern pattern, Pattern::regex(vocabulary.pattern).with_context("pattern"));
  parts.pre_tokenizer.add(
      PreTokenizer::Split{std::move(pattern), PreTokenizer::Behavior::kIsolated, false});
  CAUSEWAY_TRY(fill_table(vocabulary, parts.table));
  parts.added = vocabulary.special;
  CAUSEWAY_TRY(add_listed_tokens(config.added, "added_tokens_decoder of tokenizer_config.json",
                                 parts.table, parts.added));
  CAUSEWAY_TRY(set_named(vocabulary, parts.table));
  CAUSEWAY_TRY(apply_config(config, parts.table));
  CAUSEWAY_ASSIGN(RankModel model, RankModel::build(std::move(vocabulary.words)));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<RankTokenizer>(std::move(parts), std::move(model)));
}

}  // namespace causeway::text
