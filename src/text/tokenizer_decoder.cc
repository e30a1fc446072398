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
    if (decoder.byte_level) return unsupported(where + ": a step after ByteLevel");
    if (decoder.joins()) return unsupported(where + ": a step after WordPiece");
    if (type == "ByteLevel") {
      if (!decoder.replaces.empty() || decoder.byte_fallback || fused) {
        return unsupported(where + ": a ByteLevel after other steps");
      }
      decoder.byte_level = true;
    } else if (type == "ByteFallback" && !fused) {
      decoder.byte_fallback = true;
    } else if (type == "WordPiece" && decoder.replaces.empty() && !decoder.byte_fallback &&
               !fused) {
      ContentDecoder::Words joined;
      CAUSEWAY_ASSIGN(joined.prefix, json::get_string(step, "prefix", "##", where));
      CAUSEWAY_ASSIGN(joined.cleanup, json::get_bool(step, "cleanup", true, where));
      join_words(std::move(joined), decoder);
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

}  // namespace causeway::text
