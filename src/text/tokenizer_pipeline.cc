#include "text/tokenizer_pipeline.h"

#include "text/bpe_model.h"

namespace causeway::text {
namespace {

using json::Element;

constexpr std::string_view kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// Sequences nest no deeper in any file; the parser's depth limit bounds the recursion as well.
constexpr std::size_t kStepsMax = 64;
constexpr std::size_t kDecodedBytesMax = std::size_t{64} << 10;
constexpr std::size_t kMarkBytesMax = 16;

Error unknown_component(const std::string& where, std::string_view type) {
  return unsupported(where + ": '" + std::string(type) + "' is not supported");
}

Result<std::string_view> type_of(Element step, const std::string& where) {
  CAUSEWAY_ASSIGN(const std::string_view type, json::get_string(step, "type", "", where));
  if (type.empty()) return corrupt(where + ".type is missing");
  return type;
}

// Calls visit(step, type, where) for each step that is not a Sequence, in order.
template <typename Visit>
Status for_each_step(Element step, const char* list, const std::string& where, const Visit& visit) {
  CAUSEWAY_ASSIGN(const std::string_view type, type_of(step, where));
  if (type != "Sequence") return visit(step, type, where + "." + std::string(type));
  CAUSEWAY_ASSIGN(const auto steps, json::get_array(step, list, where));
  if (steps.size() > kStepsMax) return unsupported(where + ": a Sequence of more than 64 steps");
  for (const Element inner : steps) CAUSEWAY_TRY(for_each_step(inner, list, where, visit));
  return {};
}

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
  using Behavior = PreTokenizer::Behavior;
  CAUSEWAY_ASSIGN(const auto name, json::get_string(step, "behavior", "", where));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return unknown_component(where + ".behavior", name);
}

Result<PreTokenizer::Metaspace> read_metaspace(Element step, const std::string& where) {
  using Prepend = PreTokenizer::Metaspace::Prepend;
  PreTokenizer::Metaspace metaspace;
  CAUSEWAY_ASSIGN(metaspace.mark, json::get_string(step, "replacement", kWordMark, where));
  if (metaspace.mark.empty() || metaspace.mark.size() > kMarkBytesMax) {
    return corrupt(where + ".replacement is empty or longer than 16 bytes");
  }
  CAUSEWAY_ASSIGN(metaspace.split, json::get_bool(step, "split", true, where));
  CAUSEWAY_ASSIGN(const bool prefix, json::get_bool(step, "add_prefix_space", true, where));
  CAUSEWAY_ASSIGN(const auto scheme,
                  json::get_string(step, "prepend_scheme", prefix ? "always" : "never", where));
  if (scheme == "always") {
    metaspace.prepend = Prepend::kAlways;
  } else if (scheme == "first") {
    metaspace.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = Prepend::kNever;
  } else {
    return unknown_component(where + ".prepend_scheme", scheme);
  }
  return metaspace;
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

}  // namespace

Result<Normalizer> read_normalizer(Element root) {
  Normalizer normalizer;
  const auto first = json::member(root, "normalizer");
  if (!first) return normalizer;
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    if (type == "NFC") {
      normalizer.add(Normalizer::Nfc{});
    } else if (type == "Prepend") {
      CAUSEWAY_ASSIGN(const auto text, json::get_string(step, "prepend", "", where));
      normalizer.add(Normalizer::Prepend{std::string(text)});
    } else if (type == "Replace") {
      CAUSEWAY_ASSIGN(Pattern pattern, read_pattern(step, where));
      CAUSEWAY_ASSIGN(const auto content, json::get_string(step, "content", "", where));
      normalizer.add(Normalizer::Replace{std::move(pattern), std::string(content)});
    } else {
      return unknown_component("normalizer", type);
    }
    return {};
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
    if (type != "Metaspace") return unknown_component("pre_tokenizer", type);
    CAUSEWAY_ASSIGN(auto metaspace, read_metaspace(step, where));
    out.add(std::move(metaspace));
    return {};
  };
  CAUSEWAY_TRY(for_each_step(*first, "pretokenizers", "pre_tokenizer", visit));
  return out;
}

Result<ContentDecoder::Decoded> ContentDecoder::decode(std::string_view content, bool first) const {
  if (byte_level) return Decoded{bytes_of_spelling(content).value_or(std::string(content)), false};
  std::string text(content);
  for (std::size_t step = 0; step < replaces.size(); ++step) {
    const auto& [from, usual] = replaces[step];
    const std::string_view to = first && step == metaspace ? std::string_view() : usual;
    std::string_view rest = text;
    std::string replaced;
    for (std::size_t at = rest.find(from); at != std::string_view::npos; at = rest.find(from)) {
      replaced.append(rest.substr(0, at)).append(to);
      rest.remove_prefix(at + from.size());
      if (replaced.size() > kDecodedBytesMax) {
        return corrupt("decoder: a token becomes longer than 64 KiB");
      }
    }
    text = replaced.append(rest);
  }
  const auto byte = byte_fallback ? byte_of_fallback(text, true) : std::nullopt;
  if (!byte) return Decoded{std::move(text), false};
  return Decoded{std::string(1, static_cast<char>(*byte)), true};
}

Result<ContentDecoder> read_decoder(Element root, bool byte_level) {
  ContentDecoder decoder;
  const auto first = json::member(root, "decoder");
  if (!first) {
    decoder.byte_level = byte_level;
    return decoder;
  }
  bool fused = false;  // the steps so far leave one string for the whole text
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    if (decoder.byte_level) return unsupported(where + ": a step after ByteLevel");
    if (type == "ByteLevel") {
      if (!decoder.replaces.empty() || decoder.byte_fallback || fused) {
        return unsupported(where + ": a ByteLevel after other steps");
      }
      decoder.byte_level = true;
    } else if (type == "ByteFallback" && !fused) {
      decoder.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace" && !fused && !decoder.byte_fallback) {
      const auto pattern = json::member(step, "pattern");
      if (!pattern) return corrupt(where + ".pattern is missing");
      CAUSEWAY_ASSIGN(const auto from, json::get_string(*pattern, "String", "", where));
      CAUSEWAY_ASSIGN(const auto to, json::get_string(step, "content", "", where));
      if (from.empty()) return unsupported(where + ".pattern is not a String");
      decoder.replaces.emplace_back(from, to);
    } else if (type == "Metaspace" && !fused && !decoder.byte_fallback) {
      CAUSEWAY_ASSIGN(const auto metaspace, read_metaspace(step, where));
      if (metaspace.prepend != PreTokenizer::Metaspace::Prepend::kNever) {
        decoder.metaspace = decoder.replaces.size();
        decoder.leading_space = LeadingSpace::kFirstToken;
      }
      decoder.replaces.emplace_back(metaspace.mark, " ");
    } else if (type == "Strip" && fused) {
      const auto count = [&](std::string_view name) {
        const auto value = json::member(step, name);
        std::int64_t number = -1;
        return value && value->get(number) == simdjson::SUCCESS ? number : -1;
      };
      CAUSEWAY_ASSIGN(const auto content, json::get_string(step, "content", "", where));
      if (content != " " || count("stop") != 0 || count("start") < 0 || count("start") > 1) {
        return unsupported(where + " of anything but one leading space");
      }
      if (count("start") == 1) {
        if (decoder.metaspace) return unsupported(where + ": a Strip after a Metaspace");
        decoder.leading_space = LeadingSpace::kOne;
      }
    } else {
      return unknown_component("decoder", std::string(type) + (fused ? " after Fuse" : ""));
    }
    return {};
  };
  CAUSEWAY_TRY(for_each_step(*first, "decoders", "decoder", visit));
  return decoder;
}

Status read_post_processor(Element root, TokenTable& table) {
  const auto first = json::member(root, "post_processor");
  if (!first) return {};
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    if (type == "ByteLevel") return {};  // moves offsets only
    if (type == "TemplateProcessing") return read_template(step, where, table);
    return unknown_component("post_processor", type);
  };
  return for_each_step(*first, "processors", "post_processor", visit);
}

}  // namespace causeway::text
