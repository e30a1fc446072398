// The `model` of a tokenizer.json, whichever it is. Private to the tokenizer's .cc files.
#pragma once

#include <variant>

#include "text/bpe_model.h"
#include "text/tokenizer_json_fields.h"
#include "text/unigram_model.h"
#include "text/word_models.h"

namespace causeway::text {

using JsonModel = std::variant<BpeModel, UnigramModel, WordLevelModel, WordPieceModel>;

struct ReadModel {
  Vocabulary vocabulary;  // contents as the file spells them
  JsonModel model;
};

// kUnsupported names what is not supported. `byte_level`: words are spelled byte by byte.
Result<ReadModel> read_model(json::Element model, bool byte_level);

// The model's type: "BPE" where the file says none.
Result<std::string_view> model_type(json::Element model);

}  // namespace causeway::text
