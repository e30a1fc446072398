#include "text/tokenizer_json_model.h"

#include <algorithm>
#include <cmath>

#include "base/json_numbers.h"

namespace causeway::text {
namespace {

using json::Element;

constexpr std::size_t kContentBytesMax = std::size_t{16} << 10;
constexpr std::size_t kAffixBytesMax = 64;

// A merge is "left right" or ["left", "right"].
Result<BpeModel::MergeRule> read_merge(Element value, std::size_t index) {
  const std::string where = "model.merges[" + std::to_string(index) + "]";
  BpeModel::MergeRule rule;
  std::string_view joined;
  if (value.get(joined) == simdjson::SUCCESS) {
    const std::size_t space = joined.find(' ');
    if (space == std::string_view::npos || joined.find(' ', space + 1) != std::string_view::npos) {
      return corrupt(where + " is not two tokens with one space between them");
    }
    rule = {joined.substr(0, space), joined.substr(space + 1)};
  } else {
    simdjson::dom::array pair;
    if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get(rule.left) != simdjson::SUCCESS ||
        pair.at(1).get(rule.right) != simdjson::SUCCESS) {
      return corrupt(where + " is neither a string nor a pair of strings");
    }
  }
  if (rule.left.empty() || rule.right.empty()) return corrupt(where + " has an empty token");
  return rule;
}

Result<std::vector<BpeModel::MergeRule>> read_merges(Element model) {
  CAUSEWAY_ASSIGN(const auto list, json::get_array(model, "merges", "model"));
  std::vector<BpeModel::MergeRule> merges;
  for (const Element value : list) {
    CAUSEWAY_ASSIGN(const auto rule, read_merge(value, merges.size()));
    merges.push_back(rule);
  }
  return merges;
}

Result<Vocabulary> read_vocabulary(Element model) {
  CAUSEWAY_ASSIGN(const auto object, json::get_object(model, "vocab", "model"));
  Vocabulary vocabulary;
  std::size_t bytes = 0;
  for (const auto& [content, value] : object) bytes += content.size();
  vocabulary.reserve(object.size(), bytes);
  for (const auto& [content, value] : object) {
    const auto where = [&, name = content] { return "model.vocab['" + std::string(name) + "']"; };
    if (content.size() > kContentBytesMax) {
      return unsupported("model.vocab: a token of " + std::to_string(content.size()) + " bytes");
    }
    std::int64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= kVocabularyIdsMax) {
      return json::token_id(value, where()).error();
    }
    if (!vocabulary.add(static_cast<TokenId>(id), content)) {
      return corrupt(where() + ": the token or its id " + std::to_string(id) + " occurs twice");
    }
  }
  return vocabulary;
}

Status refuse_dropout(Element model) {
  double dropout = 0;
  const auto value = json::member(model, "dropout");
  if (value && (value->get(dropout) != simdjson::SUCCESS || dropout != 0)) {
    return unsupported("model.dropout is not supported");
  }
  return {};
}

Result<BpeOptions> read_options(Element model, const Vocabulary& vocabulary, bool byte_level) {
  BpeOptions options;
  CAUSEWAY_ASSIGN(options.ignore_merges, json::get_bool(model, "ignore_merges", false, "model"));
  CAUSEWAY_ASSIGN(options.byte_fallback, json::get_bool(model, "byte_fallback", false, "model"));
  CAUSEWAY_ASSIGN(options.fuse_unknown, json::get_bool(model, "fuse_unk", false, "model"));
  CAUSEWAY_ASSIGN(const auto prefix,
                  json::get_string(model, "continuing_subword_prefix", "", "model"));
  CAUSEWAY_ASSIGN(const auto suffix, json::get_string(model, "end_of_word_suffix", "", "model"));
  if (prefix.size() > kAffixBytesMax || suffix.size() > kAffixBytesMax) {
    return unsupported("model.continuing_subword_prefix or end_of_word_suffix above 64 bytes");
  }
  const auto printable = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
  };
  if (byte_level && !(printable(prefix) && printable(suffix))) {
    return unsupported(
        "model.continuing_subword_prefix or end_of_word_suffix has characters beyond ASCII");
  }
  if (byte_level && options.byte_fallback && !(prefix.empty() && suffix.empty())) {
    return unsupported("model.byte_fallback with ByteLevel and affixes is not supported");
  }
  options.byte_level = byte_level;
  options.prefix = prefix;
  options.suffix = suffix;
  CAUSEWAY_ASSIGN(const auto unknown, json::get_string(model, "unk_token", "", "model"));
  if (unknown.empty()) return options;
  options.unknown = vocabulary.find(unknown);
  if (!options.unknown) {
    return corrupt("model.unk_token '" + std::string(unknown) + "' is not in model.vocab");
  }
  return options;
}

Result<ReadModel> read_bpe(Element model, bool byte_level) {
  CAUSEWAY_TRY(refuse_dropout(model));
  CAUSEWAY_ASSIGN(Vocabulary vocabulary, read_vocabulary(model));
  CAUSEWAY_ASSIGN(BpeOptions options, read_options(model, vocabulary, byte_level));
  CAUSEWAY_ASSIGN(const auto merges, read_merges(model));
  CAUSEWAY_ASSIGN(BpeModel bpe, BpeModel::build(vocabulary, merges, options));
  return ReadModel{std::move(vocabulary), JsonModel(std::move(bpe))};
}

// ["piece", score]; the id is the place in the list.
Status read_piece(Element value, Vocabulary& vocabulary, std::vector<double>& scores,
                  std::size_t& bytes) {
  const std::string where = "model.vocab[" + std::to_string(scores.size()) + "]";
  simdjson::dom::array pair;
  std::string_view content;
  double score = 0;
  if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(content) != simdjson::SUCCESS || pair.at(1).get(score) != simdjson::SUCCESS) {
    return corrupt(where + " is not a string and a number");
  }
  score = python_number(score);
  if (!std::isfinite(score)) return corrupt(where + ": the score is not finite");
  bytes += content.size();
  if (content.size() > UnigramModel::kPieceBytesMax || bytes > UnigramModel::kAllBytesMax) {
    return unsupported(where + ": a piece above 1024 bytes, or all together above 16 MiB");
  }
  if (scores.size() >= static_cast<std::size_t>(kVocabularyIdsMax)) {
    return corrupt("model.vocab has more than " + std::to_string(kVocabularyIdsMax) + " pieces");
  }
  if (!vocabulary.add(static_cast<TokenId>(scores.size()), content)) {
    return corrupt(where + ": '" + std::string(content) + "' occurs twice");
  }
  scores.push_back(score);
  return {};
}

Result<ReadModel> read_unigram(Element model, bool byte_level) {
  if (byte_level) return unsupported("model: 'Unigram' after ByteLevel is not supported");
  CAUSEWAY_ASSIGN(const auto list, json::get_array(model, "vocab", "model"));
  Vocabulary vocabulary;
  std::vector<double> scores;
  std::size_t bytes = 0;
  for (const Element value : list) {
    CAUSEWAY_TRY(read_piece(value, vocabulary, scores, bytes));
  }
  UnigramOptions options;
  CAUSEWAY_ASSIGN(options.byte_fallback, json::get_bool(model, "byte_fallback", false, "model"));
  if (const auto unknown = json::member(model, "unk_id")) {
    CAUSEWAY_ASSIGN(options.unknown, json::token_id(*unknown, "model.unk_id"));
    if (!vocabulary.contains(*options.unknown)) return corrupt("model.unk_id is no piece's");
  }
  UnigramModel unigram(vocabulary, std::move(scores), options);
  return ReadModel{std::move(vocabulary), JsonModel(std::move(unigram))};
}

Result<ReadModel> read_word_model(Element model, bool pieces, bool byte_level) {
  if (byte_level) return unsupported("model: a model of words after ByteLevel is not supported");
  CAUSEWAY_ASSIGN(Vocabulary vocabulary, read_vocabulary(model));
  CAUSEWAY_ASSIGN(const auto name,
                  json::get_string(model, "unk_token", pieces ? "[UNK]" : "<unk>", "model"));
  const auto unknown = vocabulary.find(name);
  if (!pieces) {
    WordLevelModel level(vocabulary, unknown);
    return ReadModel{std::move(vocabulary), JsonModel(std::move(level))};
  }
  WordPieceOptions options;
  options.unknown = unknown;
  CAUSEWAY_ASSIGN(options.prefix,
                  json::get_string(model, "continuing_subword_prefix", "##", "model"));
  if (options.prefix.size() > kAffixBytesMax) {
    return unsupported("model.continuing_subword_prefix above 64 bytes");
  }
  const auto most = json::member(model, "max_input_chars_per_word");
  if (most &&
      (most->get(options.word_characters_max) != simdjson::SUCCESS ||
       options.word_characters_max < 0 || options.word_characters_max > WordPieceModel::kWordMax)) {
    return unsupported("model.max_input_chars_per_word is not a number from 0 to 1000");
  }
  WordPieceModel word_piece(vocabulary, std::move(options));
  return ReadModel{std::move(vocabulary), JsonModel(std::move(word_piece))};
}

}  // namespace

Result<std::string_view> model_type(Element model) {
  return json::get_string(model, "type", "BPE", "model");
}

Result<ReadModel> read_model(Element model, bool byte_level) {
  CAUSEWAY_ASSIGN(const std::string_view type, model_type(model));
  if (type == "BPE") return read_bpe(model, byte_level);
  if (type == "Unigram") return read_unigram(model, byte_level);
  if (type == "WordLevel") return read_word_model(model, false, byte_level);
  if (type == "WordPiece") return read_word_model(model, true, byte_level);
  return unsupported("model: '" + std::string(type) + "' is not supported");
}

}  // namespace causeway::text
