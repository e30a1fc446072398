// Text to token ids and back, equal to what the model was trained with.
//
//   text -> added tokens split off -> normalised -> split into words -> byte-pair merges -> ids
//   ids  -> bytes of each token -> Detokenizer (detokenizer.h) -> complete UTF-8
//
// Two kinds are read: `tokenizer.json` (byte-level BPE, and BPE with byte fallback) and
// SentencePiece BPE from `tokenizer.model`. What a file asks for and this code cannot do is an
// error kUnsupported that names the component, never a silent difference. Unicode is version 14,
// that of PCRE2 10.42 and utf8proc: characters assigned later count as unassigned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::text {

using TokenId = std::int32_t;

class Detokenizer;  // detokenizer.h

struct EncodeOptions {
  // BOS and EOS around the text, as the file's post-processor or tokenizer_config.json says.
  bool add_special_tokens = true;
  // Special tokens written out in the text become their ids; false for text of strangers. Added
  // tokens that are not special (`<tool_call>`) become their ids either way.
  bool parse_special = true;
};

// Immutable after load; every function may be called from many threads at once. Nothing blocks.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // kInvalidArgument, naming the byte offset, when `text` is not UTF-8, or naming the character
  // when the vocabulary has no token for it and no unknown token. Time is O(n log n) in the bytes
  // of `text`; memory about 40 bytes a byte of its longest word.
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              const EncodeOptions& options) const = 0;

  // The raw bytes a token stands for, a special token's its content; "" when there is no such
  // token. They may be a part of a character. Valid as long as the tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // Special or control token: what `skip_special` leaves out of text for users.
  virtual bool is_special(TokenId id) const = 0;
  // By content as the file spells it: "<|eot_id|>", "Ġthe", "▁the".
  virtual std::optional<TokenId> find(std::string_view token) const = 0;
  // One more than the largest id. Ids below it may be unused.
  virtual std::int64_t vocab_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // Encoding puts a space before the text, so decoding takes one off its start.
  virtual bool strips_leading_space() const = 0;
};

// `directory` is a Hugging Face snapshot: tokenizer.json if there, else tokenizer.model and, if
// there, added_tokens.json; tokenizer_config.json for BOS, EOS, whether to add them, and more added
// tokens, if there. Reads files: blocks.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory);

// What a SentencePiece tokenizer is made of; "" for a file that is not there.
struct SentencePieceFiles {
  std::string_view model;        // tokenizer.model
  std::string_view config = {};  // tokenizer_config.json
  std::string_view added = {};   // added_tokens.json
};

// The same from bytes in memory; `config_json` is tokenizer_config.json, "" for none. All input is
// treated as hostile.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view json,
                                                       std::string_view config_json = {});
Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const SentencePieceFiles& files);

}  // namespace causeway::text
