// What both kinds of tokenizer share: the table of tokens, and encoding around the added tokens.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "text/bpe_merge.h"
#include "text/bpe_vocabulary.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"

namespace causeway::text {

// Longer texts are refused: offsets within a word are 32 bits wide.
inline constexpr std::size_t kTextBytesMax = std::size_t{256} << 20;

class TokenTable {
 public:
  // False when the id or the content is taken. `bytes` is what the token decodes to.
  bool add(TokenId id, std::string_view content, std::string_view bytes);
  void reserve(std::size_t entries, std::size_t bytes);
  void set_special(TokenId id);
  void set_byte(TokenId id);

  const Vocabulary& contents() const { return contents_; }
  std::string_view bytes(TokenId id) const;
  bool is_special(TokenId id) const {
    return contents_.contains(id) && special_[static_cast<std::size_t>(id)];
  }
  bool is_byte(TokenId id) const {
    return contents_.contains(id) && byte_[static_cast<std::size_t>(id)];
  }

  std::vector<TokenId> prefix;  // put around an encoded text on request
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  LeadingSpace leading_space = LeadingSpace::kKept;
  InvalidBytes invalid_bytes = InvalidBytes::kMaximalParts;

 private:
  struct Span {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  Vocabulary contents_;
  std::string bytes_;
  std::vector<Span> spans_;
  std::vector<bool> special_;
  std::vector<bool> byte_;
};

// How many tokens are wanted, and what is known of how many there are.
class TokenLimit {
 public:
  explicit TokenLimit(std::int64_t most) : most_(most) {}

  // Whether it is known that there are more tokens than are wanted: `ids`, and those of `bytes`
  // more bytes, of which no token stands for more than `token_bytes_max`; 0: a token may stand for
  // any number.
  bool exceeded(const std::vector<TokenId>& ids, std::size_t bytes = 0,
                std::size_t token_bytes_max = 0) {
    if (most_ == kAllTokens) return false;
    const std::size_t more =
        token_bytes_max == 0 ? 0 : (bytes + token_bytes_max - 1) / token_bytes_max;
    const auto known = static_cast<std::int64_t>(ids.size() + more);
    if (known > most_) known_ = std::max(known_, known);
    return known_ > 0;
  }
  // If they are more than are wanted: how many there are at least.
  std::int64_t known() const { return known_; }

 private:
  const std::int64_t most_;
  std::int64_t known_ = 0;
};

// Everything but the encoding of a stretch of text without added tokens.
class TableTokenizer : public Tokenizer {
 public:
  Result<TokensUpTo> encode_up_to(std::string_view text, const EncodeOptions& options,
                                  std::int64_t most) const final;
  std::string_view token_bytes(TokenId id) const final { return table_.bytes(id); }
  bool is_special(TokenId id) const final { return table_.is_special(id); }
  std::optional<TokenId> find(std::string_view token) const final {
    return table_.contents().find(token);
  }
  std::int64_t vocab_size() const final { return table_.contents().ids_end(); }
  std::optional<TokenId> bos() const final { return table_.bos; }
  std::optional<TokenId> eos() const final { return table_.eos; }
  LeadingSpace leading_space() const final { return table_.leading_space; }
  InvalidBytes invalid_bytes() const final { return table_.invalid_bytes; }
  bool is_byte(TokenId id) const final { return table_.is_byte(id); }

 protected:
  const TokenTable& table() const { return table_; }
  struct Scratch {
    TokenLimit limit;
    bool parse_special = true;
    MergeScratch merge = {};
    std::vector<Segment> parts = {};
  };

  TableTokenizer(TokenTable table, std::vector<AddedToken> added)
      : table_(std::move(table)), added_(std::move(added)) {}

  // Appends the ids of `text`, valid UTF-8, not empty; not all of them if that exceeds the limit.
  // `first`: the user's text starts with it.
  virtual Status encode_text(std::string_view text, bool first, Scratch& scratch,
                             std::vector<TokenId>& ids) const = 0;

 private:
  TokenTable table_;
  AddedTokenMatcher added_;
};

}  // namespace causeway::text
