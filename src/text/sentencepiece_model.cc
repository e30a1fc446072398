#include "text/sentencepiece_model.h"

#include <bit>
#include <cmath>
#include <optional>

#include "text/bpe_model.h"
#include "text/utf8.h"

namespace causeway::text {
namespace {

constexpr std::size_t kPieceBytesMax = 1024;

// One field of a message. Wire types: 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes.
struct Field {
  std::uint64_t number = 0;
  std::uint32_t wire = 0;
  std::uint64_t value = 0;  // of wire types 0, 1 and 5
  std::string_view bytes;   // of wire type 2
};

class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  Result<Field> next() {
    CAUSEWAY_ASSIGN(const std::uint64_t key, varint());
    Field field{key >> 3, static_cast<std::uint32_t>(key & 7), 0, {}};
    switch (field.wire) {
      case 0: {
        CAUSEWAY_ASSIGN(field.value, varint());
        return field;
      }
      case 1: return fixed(field, 8);
      case 5: return fixed(field, 4);
      case 2: break;
      default: return corrupt("wire type " + std::to_string(field.wire) + " is not known");
    }
    CAUSEWAY_ASSIGN(const std::uint64_t length, varint());
    if (length > rest_.size()) {
      return corrupt("field " + std::to_string(field.number) + " has " + std::to_string(length) +
                     " bytes, " + std::to_string(rest_.size()) + " are left: truncated?");
    }
    field.bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return field;
  }

 private:
  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return corrupt("ends within a number: truncated?");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return corrupt("a number of more than 64 bits");
  }

  Result<Field> fixed(Field field, std::size_t size) {
    if (rest_.size() < size) return corrupt("ends within a number: truncated?");
    for (std::size_t i = 0; i < size; ++i) {
      field.value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

Error wrong_wire(std::string_view name) {
  return corrupt(std::string(name) + " has the wrong wire type");
}

Result<SentencePieceModel::Piece> read_piece(std::string_view bytes) {
  SentencePieceModel::Piece piece;
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    CAUSEWAY_ASSIGN(const Field field, reader.next());
    if (field.number == 1) {
      if (field.wire != 2) return wrong_wire("piece");
      piece.content = std::string(field.bytes);
    } else if (field.number == 2) {
      if (field.wire != 5) return wrong_wire("score");
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    } else if (field.number == 3) {
      if (field.wire != 0) return wrong_wire("type");
      if (field.value < 1 || field.value > 6) {
        return corrupt("type " + std::to_string(field.value) + " is not known");
      }
      piece.type = static_cast<SentencePieceModel::Type>(field.value);
    }
  }
  if (piece.content.empty()) return corrupt("an empty piece");
  if (piece.content.size() > kPieceBytesMax) {
    return unsupported("a piece of " + std::to_string(piece.content.size()) +
                       " bytes; at most 1024 are supported");
  }
  if (first_invalid_utf8(piece.content)) return corrupt("the piece is not valid UTF-8");
  if (std::isnan(piece.score)) return corrupt("the score is not a number");
  if (piece.type == SentencePieceModel::Type::kUnused) {
    return unsupported("a piece of the type `unused` is not supported");
  }
  if (piece.type == SentencePieceModel::Type::kByte && !byte_of_fallback(piece.content)) {
    return corrupt("the byte piece '" + piece.content + "' is not spelled <0xHH>");
  }
  return piece;
}

Status read_trainer(std::string_view bytes, SentencePieceModel& model, std::uint64_t& type) {
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    CAUSEWAY_ASSIGN(const Field field, reader.next());
    // Negative numbers are sign-extended to 64 bits.
    const auto number = static_cast<std::int64_t>(field.value);
    switch (field.number) {
      case 3: type = field.value; break;
      case 24:
        if (field.value != 0) return unsupported("treat_whitespace_as_suffix is not supported");
        break;
      case 35: model.byte_fallback = field.value != 0; break;
      case 41: model.bos_id = number; break;
      case 42: model.eos_id = number; break;
      case 44:
        if (field.wire != 2) return wrong_wire("unk_surface");
        if (field.bytes.size() > kPieceBytesMax || first_invalid_utf8(field.bytes)) {
          return corrupt("trainer_spec.unk_surface is not UTF-8 of at most 1024 bytes");
        }
        model.unknown_surface = field.bytes;
        continue;
      default: continue;
    }
    if (field.wire != 0) return wrong_wire("trainer_spec field " + std::to_string(field.number));
  }
  return {};
}

Status read_normalizer_spec(std::string_view bytes, SentencePieceModel& model) {
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    CAUSEWAY_ASSIGN(const Field field, reader.next());
    switch (field.number) {
      case 2:
        if (field.wire != 2) return wrong_wire("precompiled_charsmap");
        model.charsmap = std::string(field.bytes);
        continue;
      case 3: model.add_dummy_prefix = field.value != 0; break;
      case 4: model.remove_extra_whitespaces = field.value != 0; break;
      case 5:
        if (field.value == 0) {
          return unsupported("normalizer_spec.escape_whitespaces = false is not supported");
        }
        break;
      default: continue;
    }
    if (field.wire != 0) return wrong_wire("normalizer_spec field " + std::to_string(field.number));
  }
  return {};
}

Status check(const SentencePieceModel& model, std::uint64_t type) {
  using Kind = SentencePieceModel::Kind;
  if (type != static_cast<std::uint64_t>(Kind::kUnigram) &&
      type != static_cast<std::uint64_t>(Kind::kBpe)) {
    return unsupported("trainer_spec.model_type " + std::to_string(type) +
                       " (1 unigram, 2 BPE, 3 word, 4 char): only unigram and BPE are supported");
  }
  int unknown = 0;
  int bytes = 0;
  for (const auto& piece : model.pieces) {
    unknown += piece.type == SentencePieceModel::Type::kUnknown;
    bytes += piece.type == SentencePieceModel::Type::kByte;
  }
  if (unknown != 1) return corrupt(std::to_string(unknown) + " unknown pieces instead of one");
  if (model.byte_fallback && bytes != 256) {
    return corrupt("byte_fallback with " + std::to_string(bytes) + " byte pieces instead of 256");
  }
  return {};
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  std::uint64_t type = 1;
  MessageReader reader(bytes);
  while (!reader.at_end()) {
    CAUSEWAY_ASSIGN(const Field field, reader.next());
    if (field.number < 1 || field.number > 3) continue;
    if (field.wire != 2) return wrong_wire("field " + std::to_string(field.number));
    if (field.number == 1) {
      if (model.pieces.size() >= static_cast<std::size_t>(kVocabularyIdsMax)) {
        return corrupt("more than " + std::to_string(kVocabularyIdsMax) + " pieces");
      }
      auto piece = read_piece(field.bytes);
      if (!piece.ok()) {
        return piece.error().with_context("piece " + std::to_string(model.pieces.size()));
      }
      model.pieces.push_back(std::move(piece).value());
    } else if (field.number == 2) {
      CAUSEWAY_TRY(read_trainer(field.bytes, model, type));
    } else {
      CAUSEWAY_TRY(read_normalizer_spec(field.bytes, model));
    }
  }
  CAUSEWAY_TRY(check(model, type));
  model.kind = static_cast<SentencePieceModel::Kind>(type);
  return model;
}

}  // namespace causeway::text
