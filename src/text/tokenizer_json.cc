// tokenizer.json: the file into its parts, and encoding with them.
#include "text/tokenizer_config.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_json_model.h"
#include "text/tokenizer_pipeline.h"

namespace causeway::text {
namespace {

using json::Element;

constexpr std::size_t kDecodedBytesMax = std::size_t{1} << 30;

struct Parts {
  TokenTable table;
  std::vector<AddedToken> raw_added;         // looked for in the text as it comes
  std::vector<AddedToken> normalized_added;  // looked for once it is normalised
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  ContentDecoder decoder;
};

class JsonTokenizer final : public TableTokenizer {
 public:
  JsonTokenizer(Parts parts, JsonModel model)
      : TableTokenizer(std::move(parts.table), std::move(parts.raw_added)),
        normalized_added_(std::move(parts.normalized_added)),
        normalizer_(std::move(parts.normalizer)),
        pre_tokenizer_(std::move(parts.pre_tokenizer)),
        decoder_(std::move(parts.decoder)),
        model_(std::move(model)) {}

  std::string token_bytes_at_start(TokenId id) const override {
    const std::string_view bytes = table().bytes(id);
    const std::string_view content = table().contents().content(id);
    if (!decoder_.joins() && (!decoder_.metaspace || bytes == content)) return std::string(bytes);
    // It was decoded when the file was loaded, and the marks only make it shorter.
    auto first = decoder_.decode(content, true);
    return first.ok() ? std::move(first->bytes) : std::string(bytes);
  }

  std::optional<std::string> token_bytes_at_end(TokenId id) const override {
    if (decoder_.word_end.empty()) return std::nullopt;
    return decoder_.decode_end(table().contents().content(id));
  }

  std::span<const TextReplacement> text_replacements() const override {
    return decoder_.text_replaces;
  }

 private:
  Status encode_text(std::string_view text, bool first, Scratch& scratch,
                     std::vector<TokenId>& ids) const override {
    std::string buffer;
    CAUSEWAY_ASSIGN(const std::string_view normal, normalizer_.apply(text, buffer));
    Words words;
    if (normalized_added_.empty()) return encode_stretch(normal, first, scratch, words, ids);
    scratch.parts.clear();
    normalized_added_.split(normal, scratch.parse_special, scratch.parts);
    for (const Segment& part : scratch.parts) {
      if (scratch.limit.exceeded(ids)) break;
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const bool at_start = first && part.text.data() == normal.data();
      CAUSEWAY_TRY(encode_stretch(part.text, at_start, scratch, words, ids));
    }
    return {};
  }

  Status encode_stretch(std::string_view text, bool first, Scratch& scratch, Words& words,
                        std::vector<TokenId>& ids) const {
    const std::size_t longest = token_bytes_max();
    const std::size_t kept = pre_tokenizer_.keeps_all() ? text.size() : 0;
    if (scratch.limit.exceeded(ids, kept, longest)) return {};
    CAUSEWAY_TRY(pre_tokenizer_.split(text, first, words));
    if (const auto* bpe = std::get_if<BpeModel>(&model_)) {
      encode_words(*bpe, words, scratch, ids);
      return {};
    }
    UnigramScratch unigram;
    for (const std::string_view word : words.pieces) {
      if (scratch.limit.exceeded(ids, word.size(), longest)) break;
      if (const auto* model = std::get_if<UnigramModel>(&model_)) {
        CAUSEWAY_TRY(model->encode_word(word, unigram, ids));
      } else if (const auto* level = std::get_if<WordLevelModel>(&model_)) {
        CAUSEWAY_TRY(level->encode_word(word, ids));
      } else {
        CAUSEWAY_TRY(std::get<WordPieceModel>(model_).encode_word(word, ids));
      }
    }
    return {};
  }

  static void encode_words(const BpeModel& model, const Words& words, Scratch& scratch,
                           std::vector<TokenId>& ids) {
    for (std::string_view word : words.pieces) {
      if (scratch.limit.exceeded(ids, word.size(), model.token_bytes_max())) return;
      // A long text without a pre-tokenizer is cut where merges never join: the same ids, sooner.
      while (model.separable_at_marks() && !word.empty()) {
        if (scratch.limit.exceeded(ids)) return;
        const std::size_t end = end_of_marked_word(word);
        model.encode_word(word.substr(0, end), scratch.merge, ids);
        word.remove_prefix(end);
      }
      if (!word.empty()) model.encode_word(word, scratch.merge, ids);
    }
  }

  // As BpeModel has it.
  std::size_t token_bytes_max() const {
    if (const auto* bpe = std::get_if<BpeModel>(&model_)) return bpe->token_bytes_max();
    const auto* unigram = std::get_if<UnigramModel>(&model_);
    return unigram != nullptr ? unigram->token_bytes_max() : 0;
  }

  AddedTokenMatcher normalized_added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  ContentDecoder decoder_;
  JsonModel model_;
};

Result<std::vector<AddedToken>> read_added_tokens(Element root) {
  std::vector<AddedToken> tokens;
  if (!json::member(root, "added_tokens")) return tokens;
  CAUSEWAY_ASSIGN(const auto list, json::get_array(root, "added_tokens", "tokenizer.json"));
  for (const Element value : list) {
    const std::string where = "added_tokens[" + std::to_string(tokens.size()) + "]";
    CAUSEWAY_ASSIGN(AddedToken token, json::added_token(value, where));
    const auto id = json::member(value, "id");
    if (!id) return corrupt(where + ".id is missing");
    CAUSEWAY_ASSIGN(token.id, json::token_id(*id, where + ".id"));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Appends the tokens that only tokenizer_config.json lists: saving a tokenizer that has got more of
// them need not write tokenizer.json anew. Tokens that both list are as tokenizer.json has them. A
// token of the vocabulary that is named as special is one wherever it stands, as in transformers.
Status append_configured(const TokenizerConfig& config, const Vocabulary& vocabulary,
                         std::vector<AddedToken>& added) {
  Vocabulary listed;
  for (const AddedToken& token : added) listed.add(token.id, token.content);
  for (const AddedToken& token : config.added) {
    if (listed.contains(token.id) && listed.content(token.id) == token.content) continue;
    const auto known = vocabulary.find(token.content);
    if ((known ? *known != token.id : vocabulary.contains(token.id)) ||
        !listed.add(token.id, token.content)) {
      return corrupt("added_tokens_decoder of tokenizer_config.json: '" + token.content +
                     "' with id " + std::to_string(token.id) + " contradicts tokenizer.json");
    }
    added.push_back(token);
  }
  for (AddedToken& token : special_tokens_of(config, vocabulary)) {
    if (listed.add(token.id, token.content)) added.push_back(std::move(token));
  }
  return {};
}

// All contents with what they decode to. Special and purely added tokens decode to themselves.
Status fill_table(const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                  const ContentDecoder& decoder, TokenTable& table) {
  std::vector<bool> verbatim(static_cast<std::size_t>(vocabulary.ids_end()));
  for (const AddedToken& token : added) {
    const auto known = vocabulary.find(token.content);
    if (known ? *known != token.id : vocabulary.contains(token.id)) {
      return corrupt("added_tokens: '" + token.content + "' with id " + std::to_string(token.id) +
                     " contradicts model.vocab");
    }
    if (known && token.special) verbatim[static_cast<std::size_t>(token.id)] = true;
  }
  table.reserve(vocabulary.entries() + added.size(), vocabulary.entries() * 8);
  std::size_t decoded_bytes = 0;
  for (std::int64_t i = 0; i < vocabulary.ids_end(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.contains(id)) continue;
    const std::string_view content = vocabulary.content(id);
    ContentDecoder::Decoded decoded{std::string(content), false};
    if (decoder.joins() || !verbatim[static_cast<std::size_t>(i)]) {
      CAUSEWAY_ASSIGN(decoded, decoder.decode(content));
    }
    decoded_bytes += decoded.bytes.size();
    if (decoded_bytes > kDecodedBytesMax) return corrupt("decoder: more than 1 GiB of tokens");
    table.add(id, content, decoded.bytes);
    if (decoded.is_byte) table.set_byte(id);
  }
  for (const AddedToken& token : added) {
    std::string bytes = token.content;
    if (decoder.joins()) {
      CAUSEWAY_ASSIGN(auto decoded, decoder.decode(token.content));
      bytes = std::move(decoded.bytes);
    }
    if (!vocabulary.contains(token.id) && !table.add(token.id, token.content, bytes)) {
      return corrupt("added_tokens: '" + token.content + "' or its id " + std::to_string(token.id) +
                     " occurs twice");
    }
    if (token.special) table.set_special(token.id);
  }
  return {};
}

// Which text each added token is looked for in.
Status sort_added(std::vector<AddedToken> added, Parts& parts) {
  for (AddedToken& token : added) {
    if (!token.normalized) {
      parts.raw_added.push_back(std::move(token));
      continue;
    }
    std::string buffer;
    CAUSEWAY_ASSIGN(const auto normal, parts.normalizer.apply(token.content, buffer));
    token.content = std::string(normal);
    parts.normalized_added.push_back(std::move(token));
  }
  return {};
}

Result<std::unique_ptr<Tokenizer>> build(Element root, const TokenizerConfig& config) {
  if (!root.is_object()) return corrupt("not an object");
  const auto model = json::member(root, "model");
  if (!model) return corrupt("model is missing");
  CAUSEWAY_ASSIGN(const std::string_view type, model_type(*model));
  Parts parts;
  bool byte_level = false;
  CAUSEWAY_ASSIGN(parts.normalizer, read_normalizer(root));
  CAUSEWAY_ASSIGN(parts.pre_tokenizer, read_pre_tokenizer(root, byte_level));
  CAUSEWAY_ASSIGN(const ContentDecoder decoder, read_decoder(root, byte_level, type != "BPE"));
  CAUSEWAY_ASSIGN(ReadModel read, read_model(*model, byte_level));
  const Vocabulary& vocabulary = read.vocabulary;
  CAUSEWAY_ASSIGN(std::vector<AddedToken> added, read_added_tokens(root));
  CAUSEWAY_TRY(append_configured(config, vocabulary, added));
  TokenTable& table = parts.table;
  CAUSEWAY_TRY(fill_table(vocabulary, added, decoder, table));
  CAUSEWAY_TRY(sort_added(std::move(added), parts));
  CAUSEWAY_TRY(read_post_processor(root, table));
  table.leading_space = decoder.leading_space;
  if (decoder.byte_fallback) table.invalid_bytes = InvalidBytes::kRestOfRun;
  if (!table.prefix.empty()) table.bos = table.prefix.front();
  if (!table.suffix.empty()) table.eos = table.suffix.back();
  // What is put around a text the file alone decides, whatever add_bos_token says.
  CAUSEWAY_TRY(apply_names(config, table));
  parts.decoder = decoder;
  return std::unique_ptr<Tokenizer>(
      std::make_unique<JsonTokenizer>(std::move(parts), std::move(read.model)));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text,
                                                       const TokenizerSideFiles& side) {
  CAUSEWAY_ASSIGN(const TokenizerConfig config, parse_tokenizer_config(side));
  simdjson::dom::parser parser;
  CAUSEWAY_ASSIGN(const Element root, json::parse(parser, text).with_context("tokenizer.json"));
  return build(root, config).with_context("tokenizer.json");
}

}  // namespace causeway::text
