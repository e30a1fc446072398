// The smallest model that a server can serve: a token a byte, and one that ends. For measuring and
// testing without weights.
#pragma once

#include <memory>
#include <string>

#include "fleet/fleet.h"

namespace causeway::server {

inline constexpr TokenId kByteModelEos = 256;   // "<|end|>", special
inline constexpr TokenId kByteModelRole = 257;  // "<|role|>", special, written by the template
inline constexpr std::int64_t kByteModelVocab = 258;
inline constexpr std::int64_t kByteModelHidden = 4;

// A tokenizer.json of 256 byte tokens, id = byte, without merges, and the two special tokens.
std::string byte_tokenizer_json();

// Renders messages as "<|role|>ROLE:CONTENT\n" and asks with "<|role|>assistant:".
inline constexpr const char* kByteModelTemplate =
    "{% for m in messages %}<|role|>{{ m.role }}:{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|role|>assistant:{% endif %}";

// A catalogue entry around them.
std::unique_ptr<fleet::CatalogueEntry> byte_model_entry(ModelId id, std::string name,
                                                        Tokens max_model_len);

}  // namespace causeway::server
