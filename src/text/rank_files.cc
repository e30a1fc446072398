// The files that describe a vocabulary of ranks: *.tiktoken and tekken.json.
#include <array>
#include <charconv>

#include "text/base64.h"
#include "text/rank_model.h"
#include "text/rank_tokenizer.h"
#include "text/tokenizer_json_fields.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

using json::Element;

// tokenization_qwen.py, beside the file at its publisher's.
constexpr std::string_view kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kQwenEnd = "<|endoftext|>";
constexpr int kQwenExtras = 205;

// What a tekken.json without a list of special tokens has.
constexpr std::array<std::string_view, 20> kTekkenSpecial = {"<unk>",
                                                             "<s>",
                                                             "</s>",
                                                             "[INST]",
                                                             "[/INST]",
                                                             "[AVAILABLE_TOOLS]",
                                                             "[/AVAILABLE_TOOLS]",
                                                             "[TOOL_RESULTS]",
                                                             "[/TOOL_RESULTS]",
                                                             "[TOOL_CALLS]",
                                                             "[IMG]",
                                                             "<pad>",
                                                             "[IMG_BREAK]",
                                                             "[IMG_END]",
                                                             "[PREFIX]",
                                                             "[MIDDLE]",
                                                             "[SUFFIX]",
                                                             "[SYSTEM_PROMPT]",
                                                             "[/SYSTEM_PROMPT]",
                                                             "[TOOL_CONTENT]"};

void add_special(std::string content, std::vector<AddedToken>& out, std::int64_t id) {
  AddedToken token;
  token.id = static_cast<TokenId>(id);
  token.content = std::move(content);
  token.special = true;
  out.push_back(std::move(token));
}

Status add_word(std::string_view base64, std::int64_t id, Vocabulary& words) {
  if (id >= kVocabularyIdsMax) {
    return corrupt("more than " + std::to_string(kVocabularyIdsMax) + " tokens");
  }
  const auto bytes = bytes_of_base64(base64);
  if (!bytes || bytes->empty()) return corrupt("the token is not written as base64");
  if (bytes->size() > RankModel::kTokenBytesMax) {
    return unsupported("a token of " + std::to_string(bytes->size()) + " bytes; at most " +
                       std::to_string(RankModel::kTokenBytesMax) + " are supported");
  }
  if (words.add(static_cast<TokenId>(id), *bytes)) return {};
  return corrupt("the token or its rank occurs twice");
}

Status read_line(std::string_view line, Vocabulary& words) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return corrupt("not \"<base64> <rank>\"");
  const std::string_view digits = line.substr(space + 1);
  std::int64_t rank = -1;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (failure != std::errc() || end != digits.data() + digits.size() || rank < 0) {
    return corrupt("the rank is not a number");
  }
  return add_word(line.substr(0, space), rank, words);
}

// An integer in [low, high].
Result<std::int64_t> get_count(Element config, const char* name, std::int64_t low,
                               std::int64_t high) {
  std::int64_t count = -1;
  const auto value = json::member(config, name);
  if (!value || value->get(count) != simdjson::SUCCESS || count < low || count > high) {
    return corrupt(std::string("config.") + name + " is not a number from " + std::to_string(low) +
                   " to " + std::to_string(high));
  }
  return count;
}

Status read_ranks(Element root, std::int64_t first_id, std::int64_t count, Vocabulary& words) {
  CAUSEWAY_ASSIGN(const auto list, json::get_array(root, "vocab", "tekken.json"));
  std::int64_t index = 0;
  for (const Element entry : list) {
    if (index == count) return {};  // files have more than their models use
    const std::string where = "vocab[" + std::to_string(index) + "]";
    std::int64_t rank = -1;
    const auto value = json::member(entry, "rank");
    if (!value || value->get(rank) != simdjson::SUCCESS || rank != index) {
      return corrupt(where + ".rank is not " + std::to_string(index));
    }
    CAUSEWAY_ASSIGN(const auto base64, json::get_string(entry, "token_bytes", "", where));
    CAUSEWAY_TRY(add_word(base64, first_id + index, words).with_context(where));
    ++index;
  }
  if (index == count) return {};
  return corrupt("vocab has " + std::to_string(index) + " tokens; config says " +
                 std::to_string(count));
}

Status read_special(Element root, std::int64_t count, std::vector<AddedToken>& out) {
  if (!json::member(root, "special_tokens")) {
    for (const std::string_view content : kTekkenSpecial) {
      add_special(std::string(content), out, std::ssize(out));
    }
  } else {
    CAUSEWAY_ASSIGN(const auto list, json::get_array(root, "special_tokens", "tekken.json"));
    for (const Element entry : list) {
      const std::string where = "special_tokens[" + std::to_string(out.size()) + "]";
      std::int64_t rank = -1;
      const auto value = json::member(entry, "rank");
      if (!value || value->get(rank) != simdjson::SUCCESS || rank != std::ssize(out)) {
        return corrupt(where + ".rank is not " + std::to_string(out.size()));
      }
      CAUSEWAY_ASSIGN(const auto content, json::get_string(entry, "token_str", "", where));
      if (content.empty() || content.size() > kAddedTokenBytesMax) {
        return corrupt(where + ".token_str has " + std::to_string(content.size()) +
                       " bytes; 1 to " + std::to_string(kAddedTokenBytesMax) + " are supported");
      }
      add_special(std::string(content), out, rank);
    }
  }
  if (std::ssize(out) > count) {
    return corrupt("there are " + std::to_string(out.size()) +
                   " special tokens; config.default_num_special_tokens says " +
                   std::to_string(count));
  }
  while (std::ssize(out) < count) {
    add_special("<SPECIAL_" + std::to_string(out.size()) + ">", out, std::ssize(out));
  }
  return {};
}

}  // namespace

Result<RankVocabulary> parse_tiktoken(std::string_view text) {
  RankVocabulary out;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    CAUSEWAY_TRY(read_line(line, out.words).with_context("line " + std::to_string(number)));
  }
  std::int64_t id = out.words.ids_end();
  if (static_cast<std::int64_t>(out.words.entries()) != id) {
    return corrupt("there are " + std::to_string(out.words.entries()) +
                   " tokens, but ranks up to " + std::to_string(id - 1));
  }
  if (id > kVocabularyIdsMax - 3 - kQwenExtras)
    return corrupt("no ids are left for special tokens");
  for (const std::string_view content :
       {kQwenEnd, std::string_view("<|im_start|>"), std::string_view("<|im_end|>")}) {
    add_special(std::string(content), out.special, id++);
  }
  for (int i = 0; i < kQwenExtras; ++i) {
    add_special("<|extra_" + std::to_string(i) + "|>", out.special, id++);
  }
  out.pattern = kQwenPattern;
  out.composes = true;
  out.eos = kQwenEnd;
  return out;
}

Result<RankVocabulary> parse_tekken(std::string_view text) {
  simdjson::dom::parser parser;
  CAUSEWAY_ASSIGN(const Element root, json::parse(parser, text));
  const auto config = json::member(root, "config");
  if (!config) return corrupt("config is missing");
  RankVocabulary out;
  CAUSEWAY_ASSIGN(const auto pattern, json::get_string(*config, "pattern", "", "config"));
  if (pattern.empty()) return corrupt("config.pattern is missing");
  out.pattern = pattern;
  CAUSEWAY_ASSIGN(const std::int64_t special,
                  get_count(*config, "default_num_special_tokens", 3, kVocabularyIdsMax));
  CAUSEWAY_ASSIGN(const std::int64_t all,
                  get_count(*config, "default_vocab_size", special, kVocabularyIdsMax));
  CAUSEWAY_TRY(read_special(root, special, out.special));
  CAUSEWAY_TRY(read_ranks(root, special, all - special, out.words));
  out.bos = "<s>";
  out.eos = "</s>";
  out.add_bos = true;
  return out;
}

Result<std::unique_ptr<Tokenizer>> load_tekken(std::string_view json,
                                               const TokenizerSideFiles& side) {
  CAUSEWAY_ASSIGN(const TokenizerConfig config, parse_tokenizer_config(side));
  CAUSEWAY_ASSIGN(RankVocabulary vocabulary, parse_tekken(json).with_context("tekken.json"));
  return make_rank_tokenizer(std::move(vocabulary), config).with_context("tekken.json");
}

Result<std::unique_ptr<Tokenizer>> load_tiktoken(std::string_view ranks,
                                                 const TokenizerSideFiles& side) {
  CAUSEWAY_ASSIGN(const TokenizerConfig config, parse_tokenizer_config(side));
  CAUSEWAY_ASSIGN(RankVocabulary vocabulary, parse_tiktoken(ranks).with_context("qwen.tiktoken"));
  return make_rank_tokenizer(std::move(vocabulary), config).with_context("qwen.tiktoken");
}

}  // namespace causeway::text
