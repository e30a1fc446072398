// Encoding with a SentencePiece model: unigram (sentencepiece_unigram.h) or BPE, which is here.
//
//   "Hello world" -> "▁Hello▁world" -> characters -> merges by score -> ids
//
// A pair may be joined when the joined text is a piece, whether or not its halves are; the piece's
// score decides the order. User-defined pieces are found first and never joined to anything.
#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

#include "text/bpe_model.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normalizer.h"
#include "text/sentencepiece_unigram.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_table.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

using Type = SentencePieceModel::Type;

struct Settings {
  bool add_dummy_prefix = true;
  bool prefix_every_stretch = true;  // not only the one that starts the text
};

// The pieces as encoding needs them. Thread-safe after build.
class PieceModel {
 public:
  explicit PieceModel(const SentencePieceModel& model) : memo_(model.pieces.size()) {
    std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
    ranks_.resize(model.pieces.size());
    std::map<float, std::uint32_t, std::greater<>> ranks;  // equal scores share a rank
    for (const auto& piece : model.pieces) ranks[piece.score] = 0;
    std::uint32_t next = 0;
    for (auto& [score, rank] : ranks) rank = next++;
    std::vector<std::string> user_defined;
    for (std::size_t i = 0; i < model.pieces.size(); ++i) {
      const auto& piece = model.pieces[i];
      ranks_[i] = ranks[piece.score];
      add(piece, static_cast<TokenId>(i), user_defined);
    }
    if (!model.byte_fallback) std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
    user_defined_ = PrefixSet(user_defined);
  }

  // Appends the ids of `text`, spaces written as kWordMark, valid UTF-8, not empty; not all of them
  // if that exceeds the limit.
  void encode(std::string_view text, TokenLimit& limit, MergeScratch& scratch,
              std::vector<TokenId>& ids) const {
    bool after_unknown = false;
    if (!separable_) return encode_word(text, scratch, ids, after_unknown);
    while (!text.empty() && !limit.exceeded(ids)) {
      const std::size_t end = end_of_marked_word(text);
      encode_word(text.substr(0, end), scratch, ids, after_unknown);
      text.remove_prefix(end);
    }
  }

  // No token stands for more bytes of a text, and each byte of it is in a token; 0: unknown
  // characters, however many, are one token.
  std::size_t token_bytes_max() const {
    return byte_ids_[0] >= 0 ? std::max<std::size_t>(1, longest_) : 0;
  }

 private:
  static constexpr TokenId kFrozen = -2;  // a symbol that is a user-defined piece

  void add(const SentencePieceModel::Piece& piece, TokenId id, std::vector<std::string>& defined) {
    if (piece.type == Type::kUnknown) unknown_ = id;
    if (piece.type == Type::kByte) {
      if (const auto byte = byte_of_fallback(piece.content)) byte_ids_[*byte] = id;
    }
    if (piece.type == Type::kUserDefined) defined.push_back(piece.content);
    if (piece.type != Type::kNormal && piece.type != Type::kUserDefined) return;
    words_.add(id, piece.content);
    longest_ = std::max(longest_, piece.content.size());
    if (has_inner_mark(piece.content)) separable_ = false;
  }

  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& ids,
                   bool& after_unknown) const {
    using State = WholeWordMemo::State;
    const auto whole = word.size() <= longest_ ? words_.find(word) : std::nullopt;
    if (whole && memo_.get(*whole) == State::kWhole) {
      after_unknown = false;
      ids.push_back(*whole);
      return;
    }
    split_to_symbols(word, scratch.symbols);
    merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) -> Merge {
      const std::size_t size = std::size_t{left.size} + right.size;
      if (size > longest_ || left.id == kFrozen || right.id == kFrozen) return {};
      const auto id = words_.find(word.substr(left.offset, size));
      if (!id) return {};
      return {ranks_[static_cast<std::size_t>(*id)], *id};
    });
    const auto& symbols = scratch.symbols;
    if (whole) memo_.set(*whole, symbols.size() == 1 ? State::kWhole : State::kSplit);
    for (const Symbol& symbol : symbols) {
      emit(word.substr(symbol.offset, symbol.size), ids, after_unknown);
    }
  }

  void split_to_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    for (std::size_t at = 0; at < word.size();) {
      TokenId id = -1;
      std::size_t size = utf8_length(static_cast<unsigned char>(word[at]));
      if (user_defined_.may_start(word[at])) {
        const std::size_t defined = user_defined_.longest(word.substr(at)).size;
        if (defined > 0) {
          size = defined;
          id = kFrozen;
        }
      }
      symbols.push_back({id, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(size)});
      at += size;
    }
  }

  // Unknown text becomes its bytes, or one unknown token a run.
  void emit(std::string_view text, std::vector<TokenId>& ids, bool& after_unknown) const {
    if (const auto id = words_.find(text)) {
      after_unknown = false;
      ids.push_back(*id);
    } else if (byte_ids_[0] >= 0) {
      for (const char byte : text) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    } else if (!std::exchange(after_unknown, true)) {
      ids.push_back(unknown_);
    }
  }

  Vocabulary words_;  // pieces that text can become: normal and user-defined ones
  std::vector<std::uint32_t> ranks_;
  PrefixSet user_defined_;
  std::size_t longest_ = 0;
  bool separable_ = true;  // no piece has a mark behind another character
  TokenId unknown_ = 0;
  TokenId byte_ids_[256];
  WholeWordMemo memo_;
};

using AnyModel = std::variant<PieceModel, SentencePieceUnigram>;

struct SentencePieceParts {
  TokenTable table;
  std::vector<AddedToken> added;
  SentencePieceNormalizer normalizer;
  AnyModel model;
  Settings settings;
};

class SentencePieceTokenizer final : public TableTokenizer {
 public:
  explicit SentencePieceTokenizer(SentencePieceParts parts)
      : TableTokenizer(std::move(parts.table), std::move(parts.added)),
        normalizer_(std::move(parts.normalizer)),
        model_(std::move(parts.model)),
        settings_(parts.settings) {}

  std::string token_bytes_at_start(TokenId id) const override {
    std::string_view bytes = table().bytes(id);
    // Pieces that decode to something else than their content have a mark.
    const bool mark =
        table().contents().content(id).starts_with(kWordMark) && bytes.starts_with(' ');
    if (mark) bytes.remove_prefix(1);
    return std::string(bytes);
  }

 private:
  Status encode_text(std::string_view text, bool first, Scratch& scratch,
                     std::vector<TokenId>& ids) const override {
    const bool prefix = settings_.add_dummy_prefix && (first || settings_.prefix_every_stretch);
    std::string marked;
    CAUSEWAY_TRY(normalizer_.apply(text, prefix, marked));
    const std::size_t longest =
        std::visit([](const auto& model) { return model.token_bytes_max(); }, model_);
    if (marked.empty() || scratch.limit.exceeded(ids, marked.size(), longest)) return {};
    if (const auto* unigram = std::get_if<SentencePieceUnigram>(&model_)) {
      unigram->encode(marked, ids);
    } else {
      std::get<PieceModel>(model_).encode(marked, scratch.limit, scratch.merge, ids);
    }
    return {};
  }

  SentencePieceNormalizer normalizer_;
  AnyModel model_;
  Settings settings_;
};

std::string decoded(const SentencePieceModel& model, const SentencePieceModel::Piece& piece) {
  if (piece.type == Type::kControl) return piece.content;
  if (piece.type == Type::kUnknown) return model.unknown_surface;
  if (piece.type == Type::kByte) {
    const auto byte = byte_of_fallback(piece.content);
    return byte ? std::string(1, static_cast<char>(*byte)) : piece.content;
  }
  std::string text;
  std::string_view rest = piece.content;
  for (std::size_t at = rest.find(kWordMark); at != std::string_view::npos;
       at = rest.find(kWordMark)) {
    text.append(rest.substr(0, at)).append(" ");
    rest.remove_prefix(at + kWordMark.size());
  }
  return text.append(rest);
}

// Fills `table` and collects what is to be found in texts as it stands: control pieces.
Status add_pieces(const SentencePieceModel& model, TokenTable& table,
                  std::vector<AddedToken>& added) {
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (!table.add(id, piece.content, decoded(model, piece))) {
      return corrupt("piece " + std::to_string(i) + ": '" + piece.content + "' occurs twice");
    }
    if (piece.type == Type::kByte) table.set_byte(id);
    if (piece.type != Type::kControl && piece.type != Type::kUnknown) continue;
    table.set_special(id);
    AddedToken token;
    token.id = id;
    token.content = piece.content;
    token.special = true;
    added.push_back(std::move(token));
  }
  return {};
}

std::optional<TokenId> control_piece(const SentencePieceModel& model, std::int64_t id) {
  if (id < 0 || id >= static_cast<std::int64_t>(model.pieces.size())) return std::nullopt;
  if (model.pieces[static_cast<std::size_t>(id)].type != Type::kControl) return std::nullopt;
  return static_cast<TokenId>(id);
}

Result<SentencePieceNormalizer> normalizer_of(const SentencePieceModel& model) {
  SentencePieceNormalizer::Options options;
  options.remove_extra_whitespaces = model.remove_extra_whitespaces;
  if (!model.charsmap.empty()) {
    CAUSEWAY_ASSIGN(options.charsmap,
                    Charsmap::parse_bytes(model.charsmap).with_context("normalizer_spec"));
  }
  for (const auto& piece : model.pieces) {
    if (piece.type == Type::kUserDefined) options.user_defined.push_back(piece.content);
  }
  return SentencePieceNormalizer(std::move(options));
}

Result<AnyModel> model_of(const SentencePieceModel& model) {
  if (model.kind == SentencePieceModel::Kind::kBpe) return AnyModel(PieceModel(model));
  CAUSEWAY_ASSIGN(SentencePieceUnigram unigram, SentencePieceUnigram::build(model));
  return AnyModel(std::move(unigram));
}

Result<std::unique_ptr<Tokenizer>> build(const SentencePieceModel& model,
                                         const TokenizerConfig& config,
                                         const std::vector<AddedToken>& added_file) {
  TokenTable table;
  std::vector<AddedToken> added;
  CAUSEWAY_TRY(add_pieces(model, table, added));
  CAUSEWAY_TRY(add_listed_tokens(config.added, "added_tokens_decoder of tokenizer_config.json",
                                 table, added));
  CAUSEWAY_TRY(add_listed_tokens(added_file, "added_tokens.json", table, added));
  CAUSEWAY_TRY(add_listed_tokens(special_tokens_of(config, table.contents()),
                                 "the special tokens that are named", table, added));
  table.invalid_bytes = InvalidBytes::kEach;
  if (model.add_dummy_prefix) table.leading_space = LeadingSpace::kMark;
  if (model.remove_extra_whitespaces) table.leading_space = LeadingSpace::kMarks;
  table.bos = control_piece(model, model.bos_id);
  table.eos = control_piece(model, model.eos_id);
  // Models of this kind were trained with BOS and are used without EOS unless they say otherwise.
  if (table.bos) table.prefix = {*table.bos};
  CAUSEWAY_TRY(apply_config(config, table));
  CAUSEWAY_ASSIGN(SentencePieceNormalizer normalizer, normalizer_of(model));
  CAUSEWAY_ASSIGN(AnyModel any, model_of(model));
  return std::unique_ptr<Tokenizer>(std::make_unique<SentencePieceTokenizer>(
      SentencePieceParts{std::move(table), std::move(added), std::move(normalizer), std::move(any),
                         Settings{model.add_dummy_prefix, config.legacy}}));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const SentencePieceFiles& files) {
  CAUSEWAY_ASSIGN(const TokenizerConfig config,
                  parse_tokenizer_config({files.config, files.special_map}));
  CAUSEWAY_ASSIGN(const auto added, parse_added_tokens(files.added, config));
  CAUSEWAY_ASSIGN(const SentencePieceModel model,
                  parse_sentencepiece(files.model).with_context("tokenizer.model"));
  return build(model, config, added).with_context("tokenizer.model");
}

}  // namespace causeway::text
