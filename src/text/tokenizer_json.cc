// tokenizer.json: the file into its parts, and encoding with them.
#include "text/bpe_model.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json_fields.h"
#include "text/tokenizer_pipeline.h"

namespace causeway::text {
namespace {

using json::Element;

constexpr std::size_t kDecodedBytesMax = std::size_t{1} << 30;
constexpr std::size_t kContentBytesMax = std::size_t{16} << 10;

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
  JsonTokenizer(Parts parts, BpeModel model)
      : TableTokenizer(std::move(parts.table), std::move(parts.raw_added)),
        normalized_added_(std::move(parts.normalized_added)),
        normalizer_(std::move(parts.normalizer)),
        pre_tokenizer_(std::move(parts.pre_tokenizer)),
        decoder_(std::move(parts.decoder)),
        model_(std::move(model)) {}

  std::string token_bytes_at_start(TokenId id) const override {
    const std::string_view bytes = table().bytes(id);
    const std::string_view content = table().contents().content(id);
    if (!decoder_.metaspace || bytes == content) return std::string(bytes);
    // It was decoded when the file was loaded, and the marks only make it shorter.
    auto first = decoder_.decode(content, true);
    return first.ok() ? std::move(first->bytes) : std::string(bytes);
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
    CAUSEWAY_TRY(pre_tokenizer_.split(text, first, words));
    for (std::string_view word : words.pieces) {
      // A long text without a pre-tokenizer is cut where merges never join: the same ids, sooner.
      while (model_.separable_at_marks() && !word.empty()) {
        const std::size_t end = end_of_marked_word(word);
        model_.encode_word(word.substr(0, end), scratch.merge, ids);
        word.remove_prefix(end);
      }
      if (!word.empty()) model_.encode_word(word, scratch.merge, ids);
    }
    return {};
  }

  AddedTokenMatcher normalized_added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  ContentDecoder decoder_;
  BpeModel model_;
};

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

Status refuse_unsupported_model(Element model) {
  CAUSEWAY_ASSIGN(const auto type, json::get_string(model, "type", "BPE", "model"));
  if (type != "BPE") return unsupported("model: '" + std::string(type) + "' is not supported");
  double dropout = 0;
  const auto value = json::member(model, "dropout");
  if (value && (value->get(dropout) != simdjson::SUCCESS || dropout != 0)) {
    return unsupported("model.dropout is not supported");
  }
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    CAUSEWAY_ASSIGN(const auto affix, json::get_string(model, name, "", "model"));
    if (!affix.empty()) return unsupported("model." + std::string(name) + " is not supported");
  }
  return {};
}

Result<BpeOptions> read_options(Element model, const Vocabulary& vocabulary) {
  BpeOptions options;
  CAUSEWAY_ASSIGN(options.ignore_merges, json::get_bool(model, "ignore_merges", false, "model"));
  CAUSEWAY_ASSIGN(options.byte_fallback, json::get_bool(model, "byte_fallback", false, "model"));
  CAUSEWAY_ASSIGN(options.fuse_unknown, json::get_bool(model, "fuse_unk", false, "model"));
  CAUSEWAY_ASSIGN(const auto unknown, json::get_string(model, "unk_token", "", "model"));
  if (unknown.empty()) return options;
  options.unknown = vocabulary.find(unknown);
  if (!options.unknown) {
    return corrupt("model.unk_token '" + std::string(unknown) + "' is not in model.vocab");
  }
  return options;
}

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
// them need not write tokenizer.json anew. Tokens that both list are as tokenizer.json has them.
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
    if (!verbatim[static_cast<std::size_t>(i)]) {
      CAUSEWAY_ASSIGN(decoded, decoder.decode(content));
    }
    decoded_bytes += decoded.bytes.size();
    if (decoded_bytes > kDecodedBytesMax) return corrupt("decoder: more than 1 GiB of tokens");
    table.add(id, content, decoded.bytes);
    if (decoded.is_byte) table.set_byte(id);
  }
  for (const AddedToken& token : added) {
    if (!vocabulary.contains(token.id) && !table.add(token.id, token.content, token.content)) {
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
  CAUSEWAY_TRY(refuse_unsupported_model(*model));
  Parts parts;
  bool byte_level = false;
  CAUSEWAY_ASSIGN(parts.normalizer, read_normalizer(root));
  CAUSEWAY_ASSIGN(parts.pre_tokenizer, read_pre_tokenizer(root, byte_level));
  CAUSEWAY_ASSIGN(const ContentDecoder decoder, read_decoder(root, byte_level));
  CAUSEWAY_ASSIGN(const Vocabulary vocabulary, read_vocabulary(*model));
  CAUSEWAY_ASSIGN(BpeOptions options, read_options(*model, vocabulary));
  options.byte_level = byte_level;
  CAUSEWAY_ASSIGN(const auto merges, read_merges(*model));
  CAUSEWAY_ASSIGN(BpeModel bpe, BpeModel::build(vocabulary, merges, options));
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
      std::make_unique<JsonTokenizer>(std::move(parts), std::move(bpe)));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view text,
                                                       std::string_view config_json) {
  CAUSEWAY_ASSIGN(const TokenizerConfig config, parse_tokenizer_config(config_json));
  simdjson::dom::parser parser;
  CAUSEWAY_ASSIGN(const Element root, json::parse(parser, text).with_context("tokenizer.json"));
  return build(root, config).with_context("tokenizer.json");
}

}  // namespace causeway::text
