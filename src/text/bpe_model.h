// Byte-pair encoding of one word by a table of merges: the "model" of a tokenizer.json.
//
// Byte-level files spell every byte as a printable character (0x20 as "Ġ"). Words here are raw
// bytes: the spelling is undone once at load, not done for every word.
#pragma once

#include <atomic>
#include <memory>

#include "text/bpe_merge.h"
#include "text/bpe_vocabulary.h"

namespace causeway::text {

// U+2581, which SentencePiece and its kin write for a space.
inline constexpr std::string_view kWordMark = "\xE2\x96\x81";

// `content` has a kWordMark after a different character.
bool has_inner_mark(std::string_view content);

// The end of the first part of `text` (not empty) before a kWordMark that follows another
// character.
std::size_t end_of_marked_word(std::string_view text);

// A character of the byte-level spelling to its byte and back.
std::optional<unsigned char> byte_of_spelling(char32_t code);
char32_t spelling_of_byte(unsigned char byte);
// The bytes that a byte-level content spells, or none when it has other characters.
std::optional<std::string> bytes_of_spelling(std::string_view content);
// The byte of a "<0xHH>" token, or none. Decoding reads small letters too, encoding does not.
std::optional<unsigned char> byte_of_fallback(std::string_view content, bool small_letters = false);

struct BpeOptions {
  bool byte_level = false;     // vocabulary contents are byte-level spellings
  bool ignore_merges = false;  // a word that is a token stays whole, whatever merges would give
  bool byte_fallback = false;  // a character without a token becomes its "<0xHH>" tokens
  bool fuse_unknown = false;   // adjacent unknown characters become one unknown token
  std::optional<TokenId> unknown;
  std::string prefix = {};  // of tokens that do not start a word
  std::string suffix = {};  // of tokens that end one
  bool affixes() const { return !prefix.empty() || !suffix.empty(); }
};

// Which tokens the merges give back whole when the word is just that token: a memo that spares most
// words the merging. Filled as words come; racing threads write the same answer.
class WholeWordMemo {
 public:
  enum class State : std::uint8_t { kUntried, kWhole, kSplit };
  explicit WholeWordMemo(std::size_t ids) : states_(std::make_unique<std::atomic<State>[]>(ids)) {}
  State get(TokenId id) const { return states_[id].load(std::memory_order_relaxed); }
  void set(TokenId id, State state) const { states_[id].store(state, std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<State>[]> states_;
};

// Thread-safe after build.
class BpeModel {
 public:
  // A merge by contents, as the file spells it; its rank is its place in the list.
  struct MergeRule {
    std::string_view left;
    std::string_view right;
  };
  // `vocabulary` must outlive the call only. kCorrupt when a merge names an unknown token.
  static Result<BpeModel> build(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges,
                                const BpeOptions& options);

  // Appends the ids of `word`, valid UTF-8, not empty. A character (byte, of byte-level files) that
  // has no token is left out when there is no unknown token, as the `tokenizers` library does.
  void encode_word(std::string_view word, MergeScratch& scratch, std::vector<TokenId>& ids) const;

  // No token stands for more bytes of a word, and each byte of a word is in a token; 0: characters
  // may be left out, or be unknown.
  std::size_t token_bytes_max() const { return token_bytes_max_; }

  // No merge joins kWordMark to a different character before it: a text that is not split into
  // words can be cut there without a change of result.
  bool separable_at_marks() const { return separable_at_marks_; }

 private:
  struct Slot {
    std::uint64_t pair = kEmptyPair;
    Merge merge;
  };
  static constexpr std::uint64_t kEmptyPair = ~std::uint64_t{0};
  static std::uint64_t pair_of(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
           static_cast<std::uint32_t>(right);
  }

  BpeModel(BpeOptions options, std::size_t ids) : options_(std::move(options)), memo_(ids) {}
  void index_words(const Vocabulary& vocabulary);
  Status add_merges(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges);
  Slot& slot_for(std::uint64_t pair);
  Merge merge_of(TokenId left, TokenId right) const;
  void split_to_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  // The character as the vocabulary has it where it stands in the word.
  std::string_view with_affixes(std::string_view character, bool first, bool last,
                                std::string& buffer) const;
  bool add_fallback(std::string_view character, std::vector<Symbol>& symbols) const;

  BpeOptions options_;
  Vocabulary words_;  // contents as raw text bytes
  std::vector<Slot> slots_;
  TokenId byte_ids_[256];      // of one-byte words: bytes (byte-level) or ASCII characters
  TokenId fallback_ids_[256];  // of "<0xHH>"
  bool separable_at_marks_ = false;
  std::size_t token_bytes_max_ = 0;
  WholeWordMemo memo_;
};

}  // namespace causeway::text
