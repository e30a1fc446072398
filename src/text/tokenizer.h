// Text to token ids and back, equal to what the model was trained with.
//
//   text -> added tokens split off -> normalised -> split into words -> the model -> ids
//   ids  -> bytes of each token -> Detokenizer (detokenizer.h) -> complete UTF-8
//
// Four kinds are read: `tokenizer.json` (BPE, Unigram, WordPiece, WordLevel), SentencePiece BPE
// from `tokenizer.model`, Mistral's `tekken.json` and the ranks of `qwen.tiktoken`. What a file
// asks for and this code cannot do is an error kUnsupported that names the component, never a
// silent difference. Unicode is version 14, that of PCRE2 10.42 and utf8proc: characters assigned
// later count as unassigned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
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

// What decoding takes off the start of a text.
enum class LeadingSpace {
  kKept,
  kOne,         // one space, whatever it comes from (a Strip in tokenizer.json)
  kFirstToken,  // the marks of spaces in the first token (Metaspace)
  kMark,        // the mark that the first token starts with (SentencePiece)
  kMarks,       // the same of each token, up to one that has more than that
};

// What decoding makes of bytes that are no UTF-8: U+FFFD for ...
enum class InvalidBytes {
  kMaximalParts,  // each maximal valid beginning (ByteLevel)
  kEach,          // each byte (SentencePiece)
  kRestOfRun,     // each byte, and each further byte up to a token that is none (ByteFallback)
};

// `from` has a byte at least, `to` at most four times as many.
struct TextReplacement {
  std::string from, to;
};

// For encode_up_to(): all tokens are wanted.
inline constexpr std::int64_t kAllTokens = std::numeric_limits<std::int64_t>::max();

struct TokensUpTo {
  // All, if there are as many as are wanted at most; else some of the first, or none.
  std::vector<TokenId> ids;
  std::int64_t count = 0;  // of all; if that is more than are wanted, at least so many
};

// Immutable after load; every function may be called from many threads at once. Nothing blocks.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // kInvalidArgument, naming the byte offset, when `text` is not UTF-8. What the vocabulary has no
  // token for, and no unknown token either, is left out. Time is O(n log n) in the bytes of `text`;
  // memory about 40 bytes a byte of its longest word.
  Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options) const;
  // The same for a caller that can use `most` tokens: it ends as soon as it is known that there are
  // more, be it by the bytes of a word and of the longest token.
  virtual Result<TokensUpTo> encode_up_to(std::string_view text, const EncodeOptions& options,
                                          std::int64_t most) const = 0;

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
  // Encoding puts a space before the text, so decoding takes it off its start.
  virtual LeadingSpace leading_space() const { return LeadingSpace::kKept; }
  // What a token that starts a text stands for, where that are marks of spaces (LeadingSpace).
  virtual std::string token_bytes_at_start(TokenId id) const {
    return std::string(token_bytes(id));
  }
  // Tokens stand for something else where they end a text (BPEDecoder): then what that is, else
  // nullopt.
  virtual std::optional<std::string> token_bytes_at_end(TokenId) const { return std::nullopt; }
  // What decoding replaces in the text as a whole, one after the other.
  virtual std::span<const TextReplacement> text_replacements() const { return {}; }
  virtual InvalidBytes invalid_bytes() const { return InvalidBytes::kMaximalParts; }
  // The token is one byte of text, "<0xC3>", which makes characters with such tokens only.
  virtual bool is_byte(TokenId) const { return false; }
};

// `directory` is a Hugging Face snapshot: tokenizer.json if there, else tokenizer.model and, if
// there, added_tokens.json, else tekken.json, else qwen.tiktoken; tokenizer_config.json for BOS,
// EOS, whether to add them, and more added tokens, if there; special_tokens_map.json where
// transformers reads it (tokenizer_config.h). Reads files: blocks.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& directory);

// What stands beside a vocabulary; "" for a file that is not there.
struct TokenizerSideFiles {
  std::string_view config = {};       // tokenizer_config.json
  std::string_view special_map = {};  // special_tokens_map.json
};

// What a SentencePiece tokenizer is made of; "" for a file that is not there.
struct SentencePieceFiles {
  std::string_view model;             // tokenizer.model
  std::string_view config = {};       // tokenizer_config.json
  std::string_view added = {};        // added_tokens.json
  std::string_view special_map = {};  // special_tokens_map.json
};

// The same from bytes in memory. All input is treated as hostile.
Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(std::string_view json,
                                                       const TokenizerSideFiles& side = {});
Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const SentencePieceFiles& files);
Result<std::unique_ptr<Tokenizer>> load_tekken(std::string_view json,
                                               const TokenizerSideFiles& side = {});
// Ranks as tiktoken writes them, with the special tokens and the expression of Qwen v1.
Result<std::unique_ptr<Tokenizer>> load_tiktoken(std::string_view ranks,
                                                 const TokenizerSideFiles& side = {});

}  // namespace causeway::text
