// A SentencePiece `tokenizer.model`: a protocol-buffer message, read by a small reader of its own.
//
//   ModelProto    1: pieces (repeated)   2: trainer_spec   3: normalizer_spec
//   piece         1: content   2: score (float)   3: type
//
// Fields that encoding and decoding do not depend on are skipped. (Field numbers: the published
// sentencepiece_model.proto.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::text {

struct SentencePieceModel {
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string content;
    float score = 0;
    Type type = Type::kNormal;
  };
  enum class Kind { kUnigram = 1, kBpe = 2 };
  Kind kind = Kind::kUnigram;
  std::vector<Piece> pieces;  // the index is the id
  std::int64_t bos_id = 1;    // -1: none
  std::int64_t eos_id = 2;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  std::string charsmap;                            // what characters become, compiled; "": nothing
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown piece decodes to: " ⁇ "
};

// Hostile input is expected: kCorrupt for what contradicts the format, kUnsupported for models of
// words or characters and other settings that are not implemented.
Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes);

}  // namespace causeway::text
