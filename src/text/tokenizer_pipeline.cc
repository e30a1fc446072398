#include "text/tokenizer_pipeline.h"

#include "text/tokenizer_steps.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

using Behavior = PreTokenizer::Behavior;
using json::Element;

constexpr std::string_view kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kWhiteSpace = "\\p{White_Space}";
// Rust's: ASCII's symbols too.
constexpr std::string_view kPunctuation = "[!-\\/:-@\\[-`{-~\\p{P}]";
// Words as Rust's `\w` has them, which takes joiners.
constexpr std::string_view kWordCharacters =
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]+";

// {"String": "..."} or {"Regex": "..."}.
Result<Pattern> read_pattern(Element step, const std::string& where) {
  const auto pattern = json::member(step, "pattern");
  if (!pattern) return corrupt(where + ".pattern is missing");
  if (json::member(*pattern, "Regex")) {
    CAUSEWAY_ASSIGN(const auto regex, json::get_string(*pattern, "Regex", "", where + ".pattern"));
    return Pattern::regex(regex).with_context(where);
  }
  CAUSEWAY_ASSIGN(const auto text, json::get_string(*pattern, "String", "", where + ".pattern"));
  if (text.empty()) return corrupt(where + ".pattern is neither a String nor a Regex");
  return Pattern::literal(std::string(text));
}

Result<PreTokenizer::Behavior> read_behavior(Element step, const std::string& where) {
  CAUSEWAY_ASSIGN(const auto name, json::get_string(step, "behavior", "", where));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return unknown_component(where + ".behavior", name);
}

Status add_split(Element step, const std::string& where, PreTokenizer& out) {
  CAUSEWAY_ASSIGN(Pattern pattern, read_pattern(step, where));
  CAUSEWAY_ASSIGN(const auto behavior, read_behavior(step, where));
  CAUSEWAY_ASSIGN(const bool invert, json::get_bool(step, "invert", false, where));
  out.add(PreTokenizer::Split{std::move(pattern), behavior, invert});
  return {};
}

Status add_byte_level(Element step, const std::string& where, PreTokenizer& out) {
  CAUSEWAY_ASSIGN(const bool prefix, json::get_bool(step, "add_prefix_space", true, where));
  CAUSEWAY_ASSIGN(const bool words, json::get_bool(step, "use_regex", true, where));
  if (prefix) out.add(PreTokenizer::PrefixSpace{});
  if (!words) return {};
  CAUSEWAY_ASSIGN(Pattern pattern, Pattern::regex(kGpt2Words));
  out.add(PreTokenizer::Split{std::move(pattern), PreTokenizer::Behavior::kIsolated, false});
  return {};
}

Status read_template(Element step, const std::string& where, TokenTable& table) {
  CAUSEWAY_ASSIGN(const auto items, json::get_array(step, "single", where));
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool seen_text = false;
  for (const Element item : items) {
    if (json::member(item, "Sequence")) {
      if (std::exchange(seen_text, true)) return unsupported(where + ": the text twice");
      continue;
    }
    const auto special = json::member(item, "SpecialToken");
    if (!special) return corrupt(where + ".single has neither a SpecialToken nor a Sequence");
    CAUSEWAY_ASSIGN(const auto name, json::get_string(*special, "id", "", where + ".single"));
    const std::string entry = where + ".special_tokens['" + std::string(name) + "']";
    const auto tokens = json::member(step, "special_tokens");
    const auto token = tokens ? json::member(*tokens, name) : std::nullopt;
    if (!token) return corrupt(entry + " is missing");
    CAUSEWAY_ASSIGN(const auto ids, json::get_array(*token, "ids", entry));
    for (const Element value : ids) {
      CAUSEWAY_ASSIGN(const TokenId id, json::token_id(value, entry + ".ids"));
      if (!table.contents().contains(id)) {
        return corrupt(entry + ".ids: no token has id " + std::to_string(id));
      }
      (seen_text ? after : before).push_back(id);
    }
  }
  if (!seen_text) return corrupt(where + ".single has no Sequence");
  table.prefix.insert(table.prefix.begin(), before.begin(), before.end());
  table.suffix.insert(table.suffix.end(), after.begin(), after.end());
  return {};
}

Result<Normalizer::Bert> read_bert_normalizer(Element step, const std::string& where) {
  Normalizer::Bert bert;
  CAUSEWAY_ASSIGN(bert.clean_text, json::get_bool(step, "clean_text", true, where));
  CAUSEWAY_ASSIGN(bert.chinese, json::get_bool(step, "handle_chinese_chars", true, where));
  CAUSEWAY_ASSIGN(bert.lowercase, json::get_bool(step, "lowercase", true, where));
  CAUSEWAY_ASSIGN(bert.strip_accents, json::get_bool(step, "strip_accents", bert.lowercase, where));
  return bert;
}

Status add_normalizer(Element step, std::string_view type, const std::string& where,
                      Normalizer& out) {
  if (type == "NFC") {
    out.add(Normalizer::Nfc{});
  } else if (type == "NFD" || type == "NFKD" || type == "NFKC") {
    out.add(Normalizer::Form{type != "NFD", type == "NFKC"});
  } else if (type == "StripAccents") {
    out.add(Normalizer::StripAccents{});
  } else if (type == "ByteLevel") {
    out.add(Normalizer::ByteLevel{});
  } else if (type == "Lowercase") {
    out.add(Normalizer::Lowercase{});
  } else if (type == "BertNormalizer") {
    CAUSEWAY_ASSIGN(auto bert, read_bert_normalizer(step, where));
    out.add(bert);
  } else if (type == "Strip") {
    Normalizer::Strip strip;
    CAUSEWAY_ASSIGN(strip.left, json::get_bool(step, "strip_left", true, where));
    CAUSEWAY_ASSIGN(strip.right, json::get_bool(step, "strip_right", true, where));
    out.add(strip);
  } else if (type == "Precompiled") {
    CAUSEWAY_ASSIGN(const auto base64, json::get_string(step, "precompiled_charsmap", "", where));
    CAUSEWAY_ASSIGN(Charsmap map, Charsmap::parse(base64).with_context(where));
    out.add(std::move(map));
  } else if (type == "Prepend") {
    CAUSEWAY_ASSIGN(const auto text, json::get_string(step, "prepend", "", where));
    out.add(Normalizer::Prepend{std::string(text)});
  } else if (type == "Replace") {
    CAUSEWAY_ASSIGN(Pattern pattern, read_pattern(step, where));
    CAUSEWAY_ASSIGN(const auto content, json::get_string(step, "content", "", where));
    out.add(Normalizer::Replace{std::move(pattern), std::string(content)});
  } else {
    return unknown_component("normalizer", type);
  }
  return {};
}

Status add_split_at(std::string_view expression, PreTokenizer::Behavior behavior,
                    PreTokenizer& out) {
  CAUSEWAY_ASSIGN(Pattern pattern, Pattern::regex(expression));
  out.add(PreTokenizer::Split{std::move(pattern), behavior, false});
  return {};
}

// One character, at which the text is cut and which goes.
Status add_delimiter(Element step, const std::string& where, PreTokenizer& out) {
  CAUSEWAY_ASSIGN(const auto delimiter, json::get_string(step, "delimiter", "", where));
  if (delimiter.empty() ||
      delimiter.size() != utf8_length(static_cast<unsigned char>(delimiter[0]))) {
    return corrupt(where + ".delimiter is not one character");
  }
  out.add(PreTokenizer::Split{Pattern::literal(std::string(delimiter)),
                              PreTokenizer::Behavior::kRemoved, false});
  return {};
}

// Those that need no reader of their own: most are a Split with a certain expression.
Status add_named_split(Element step, std::string_view type, const std::string& where,
                       PreTokenizer& out) {
  if (type == "CharDelimiterSplit") return add_delimiter(step, where, out);
  if (type == "WhitespaceSplit") return add_split_at(kWhiteSpace, Behavior::kRemoved, out);
  if (type == "Digits") {
    CAUSEWAY_ASSIGN(const bool each, json::get_bool(step, "individual_digits", false, where));
    return add_split_at("\\p{N}", each ? Behavior::kIsolated : Behavior::kContiguous, out);
  }
  if (type == "Punctuation") {
    auto behavior = Behavior::kIsolated;
    if (json::member(step, "behavior")) {
      CAUSEWAY_ASSIGN(behavior, read_behavior(step, where));
    }
    return add_split_at(kPunctuation, behavior, out);
  }
  if (type == "BertPreTokenizer") {
    CAUSEWAY_TRY(add_split_at(kWhiteSpace, Behavior::kRemoved, out));
    return add_split_at(kPunctuation, Behavior::kIsolated, out);
  }
  if (type == "UnicodeScripts") {
    out.add(PreTokenizer::UnicodeScripts{});
    return {};
  }
  if (type != "Whitespace") return unknown_component("pre_tokenizer", type);
  CAUSEWAY_TRY(add_split_at(kWhiteSpace, Behavior::kRemoved, out));
  return add_split_at(kWordCharacters, Behavior::kIsolated, out);
}

// BERT's and RoBERTa's: ["[CLS]", id], the text, ["[SEP]", id].
Status read_pair_processor(Element step, const std::string& where, TokenTable& table) {
  const auto read = [&](std::string_view name) -> Result<TokenId> {
    CAUSEWAY_ASSIGN(const auto pair, json::get_array(step, name, where));
    const std::string field = where + "." + std::string(name);
    Element value;
    if (pair.size() != 2 || pair.at(1).get(value) != simdjson::SUCCESS) {
      return corrupt(field + " is not a token and its id");
    }
    CAUSEWAY_ASSIGN(const TokenId id, json::token_id(value, field));
    if (!table.contents().contains(id)) {
      return corrupt(field + ": no token has id " + std::to_string(id));
    }
    return id;
  };
  CAUSEWAY_ASSIGN(const TokenId before, read("cls"));
  CAUSEWAY_ASSIGN(const TokenId after, read("sep"));
  table.prefix.insert(table.prefix.begin(), before);
  table.suffix.push_back(after);
  return {};
}

}  // namespace

Result<Normalizer> read_normalizer(Element root) {
  Normalizer normalizer;
  const auto first = json::member(root, "normalizer");
  if (!first) return normalizer;
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    return add_normalizer(step, type, where, normalizer);
  };
  CAUSEWAY_TRY(for_each_step(*first, "normalizers", "normalizer", visit));
  return normalizer;
}

Result<PreTokenizer> read_pre_tokenizer(Element root, bool& byte_level) {
  PreTokenizer out;
  byte_level = false;
  const auto first = json::member(root, "pre_tokenizer");
  if (!first) return out;
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    if (byte_level) return unsupported(where + ": a step after ByteLevel");
    if (type == "Split") return add_split(step, where, out);
    if (type == "ByteLevel") {
      byte_level = true;
      return add_byte_level(step, where, out);
    }
    if (type != "Metaspace") return add_named_split(step, type, where, out);
    CAUSEWAY_ASSIGN(auto metaspace, read_metaspace(step, where));
    out.add(std::move(metaspace));
    return {};
  };
  CAUSEWAY_TRY(for_each_step(*first, "pretokenizers", "pre_tokenizer", visit));
  return out;
}

Status read_post_processor(Element root, TokenTable& table) {
  const auto first = json::member(root, "post_processor");
  if (!first) return {};
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    if (type == "ByteLevel") return {};  // moves offsets only
    if (type == "TemplateProcessing") return read_template(step, where, table);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      return read_pair_processor(step, where, table);
    }
    return unknown_component("post_processor", type);
  };
  return for_each_step(*first, "processors", "post_processor", visit);
}

}  // namespace causeway::text
