// The decoder of a tokenizer.json.
#include "text/bpe_model.h"
#include "text/tokenizer_pipeline.h"
#include "text/tokenizer_steps.h"

namespace causeway::text {

using json::Element;

namespace {

constexpr std::size_t kTokenBytesMax = std::size_t{64} << 10;

void join_words(ContentDecoder::Words words, ContentDecoder& decoder) {
  decoder.words = std::move(words);
  decoder.leading_space = LeadingSpace::kFirstToken;
}

std::string replace_each(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

std::string decode_word(const ContentDecoder::Words& words, std::string_view content, bool first) {
  std::string text(content);
  if (!first && !words.prefix.empty() && content.starts_with(words.prefix)) {
    text.erase(0, words.prefix.size());
  } else if (!first) {
    text.insert(0, " ");
  }
  if (!words.cleanup) return text;
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{" .", "."},
                                                                  {" ?", "?"},
                                                                  {" !", "!"},
                                                                  {" ,", ","},
                                                                  {" ' ", "'"},
                                                                  {" n't", "n't"},
                                                                  {" 'm", "'m"},
                                                                  {" do not", " don't"},
                                                                  {" 's", "'s"},
                                                                  {" 've", "'ve"},
                                                                  {" 're", "'re"}}) {
    text = replace_each(text, from, to);
  }
  return text;
}

}  // namespace

Result<ContentDecoder::Decoded> ContentDecoder::decode(std::string_view content, bool first) const {
  if (joins()) return Decoded{decode_word(*words, content, first), false};
  if (!word_end.empty()) return Decoded{replace_each(content, word_end, " "), false};
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
      if (replaced.size() > kTokenBytesMax) {
        return corrupt("decoder: a token becomes longer than 64 KiB");
      }
    }
    text = replaced.append(rest);
  }
  const auto byte = byte_fallback ? byte_of_fallback(text, true) : std::nullopt;
  if (!byte) return Decoded{std::move(text), false};
  return Decoded{std::string(1, static_cast<char>(*byte)), true};
}

namespace {

Status add_replace(Element step, const std::string& where, bool fused, ContentDecoder& decoder) {
  constexpr std::size_t kTextReplacesMax = 4;
  constexpr std::size_t kTextGrowthMax = 4;
  const auto pattern = json::member(step, "pattern");
  if (!pattern) return corrupt(where + ".pattern is missing");
  CAUSEWAY_ASSIGN(const auto from, json::get_string(*pattern, "String", "", where));
  CAUSEWAY_ASSIGN(const auto to, json::get_string(step, "content", "", where));
  if (from.empty()) return unsupported(where + ".pattern is not a String");
  if (!fused) {
    decoder.replaces.emplace_back(from, to);
    return {};
  }
  if (to.size() > kTextGrowthMax * from.size() ||
      decoder.text_replaces.size() == kTextReplacesMax) {
    return unsupported(where +
                       " after Fuse: more than four, or one that makes the text more than "
                       "four times as long");
  }
  decoder.text_replaces.push_back({std::string(from), std::string(to)});
  return {};
}

Status add_strip(Element step, const std::string& where, ContentDecoder& decoder) {
  const auto count = [&](std::string_view name) {
    const auto value = json::member(step, name);
    std::int64_t number = -1;
    return value && value->get(number) == simdjson::SUCCESS ? number : -1;
  };
  CAUSEWAY_ASSIGN(const auto content, json::get_string(step, "content", "", where));
  if (content != " " || count("stop") != 0 || count("start") < 0 || count("start") > 1) {
    return unsupported(where + " of anything but one leading space");
  }
  if (count("start") == 0) return {};
  if (decoder.metaspace) return unsupported(where + ": a Strip after a Metaspace");
  if (!decoder.text_replaces.empty()) return unsupported(where + ": a Strip after a Replace");
  decoder.leading_space = LeadingSpace::kOne;
  return {};
}

Status add_metaspace(Element step, const std::string& where, ContentDecoder& decoder) {
  CAUSEWAY_ASSIGN(const auto metaspace, read_metaspace(step, where));
  if (metaspace.prepend != PreTokenizer::Metaspace::Prepend::kNever) {
    decoder.metaspace = decoder.replaces.size();
    decoder.leading_space = LeadingSpace::kFirstToken;
  }
  decoder.replaces.emplace_back(metaspace.mark, " ");
  return {};
}

Status add_word_piece(Element step, const std::string& where, ContentDecoder& decoder) {
  ContentDecoder::Words joined;
  CAUSEWAY_ASSIGN(joined.prefix, json::get_string(step, "prefix", "##", where));
  CAUSEWAY_ASSIGN(joined.cleanup, json::get_bool(step, "cleanup", true, where));
  join_words(std::move(joined), decoder);
  return {};
}

Status add_word_end(Element step, const std::string& where, ContentDecoder& decoder) {
  CAUSEWAY_ASSIGN(const auto suffix, json::get_string(step, "suffix", "</w>", where));
  if (suffix.empty()) return unsupported(where + ".suffix is empty");
  decoder.word_end = suffix;
  return {};
}

}  // namespace

Result<ContentDecoder> read_decoder(Element root, bool byte_level, bool words) {
  ContentDecoder decoder;
  const auto first = json::member(root, "decoder");
  if (!first) {
    decoder.byte_level = byte_level;
    if (words) join_words({}, decoder);
    return decoder;
  }
  bool fused = false;  // the steps so far leave one string for the whole text
  const auto visit = [&](Element step, std::string_view type, const std::string& where) -> Status {
    const bool begins = decoder.replaces.empty() && !decoder.byte_fallback && !fused;
    if (decoder.byte_level) return unsupported(where + ": a step after ByteLevel");
    if (decoder.joins()) return unsupported(where + ": a step after WordPiece");
    if (!decoder.word_end.empty() && type != "Fuse") {
      return unsupported(where + ": a step after BPEDecoder");
    }
    if (type == "ByteLevel") {
      if (!begins) return unsupported(where + ": a ByteLevel after other steps");
      decoder.byte_level = true;
    } else if (type == "ByteFallback" && !fused) {
      decoder.byte_fallback = true;
    } else if (type == "WordPiece" && begins) {
      return add_word_piece(step, where, decoder);
    } else if (type == "BPEDecoder" && begins) {
      return add_word_end(step, where, decoder);
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace" && (fused || !decoder.byte_fallback)) {
      return add_replace(step, where, fused, decoder);
    } else if (type == "Metaspace" && !fused && !decoder.byte_fallback) {
      return add_metaspace(step, where, decoder);
    } else if (type == "Strip" && fused) {
      return add_strip(step, where, decoder);
    } else {
      return unknown_component("decoder", std::string(type) + (fused ? " after Fuse" : ""));
    }
    return {};
  };
  CAUSEWAY_TRY(for_each_step(*first, "decoders", "decoder", visit));
  return decoder;
}

std::string ContentDecoder::decode_end(std::string_view content) const {
  return replace_each(content, word_end, "");
}

}  // namespace causeway::text
