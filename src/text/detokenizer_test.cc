#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/utf8.h"

namespace causeway::text::detokenizer_test {
namespace {

// Tokens that are any bytes at all; the last one is special.
class ByteTokens final : public Tokenizer {
 public:
  explicit ByteTokens(std::vector<std::string> tokens, bool strips = false)
      : tokens_(std::move(tokens)), strips_(strips) {}

  Result<TokensUpTo> encode_up_to(std::string_view, const EncodeOptions&,
                                  std::int64_t) const override {
    return unsupported("not for encoding");
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size()) return {};
    return tokens_[static_cast<std::size_t>(id)];
  }
  bool is_special(TokenId id) const override { return id == vocab_size() - 1; }
  std::optional<TokenId> find(std::string_view) const override { return std::nullopt; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  LeadingSpace leading_space() const override {
    return strips_ ? LeadingSpace::kOne : LeadingSpace::kKept;
  }

 private:
  std::vector<std::string> tokens_;
  bool strips_;
};

// The definition on the whole string: U+FFFD for each maximal valid beginning.
std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Unit unit = first_unit(bytes);
    const bool good = unit.kind == Utf8Unit::Kind::kCharacter;
    text += good ? bytes.substr(0, unit.size) : kReplacement;
    bytes.remove_prefix(unit.size);
  }
  return text;
}

TEST(Detokenizer, HoldsBackIncompleteCharacters) {
  const ByteTokens tokens({"caf", "\xC3", "\xA9", "\xF0\x9F", "\xA6", "\x99!", "<end>"});
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.push(0, true), "caf");
  EXPECT_EQ(detokenizer.push(1, true), "");
  EXPECT_EQ(detokenizer.push(2, true), "é");
  EXPECT_EQ(detokenizer.push(3, true), "");
  EXPECT_EQ(detokenizer.push(4, true), "");
  EXPECT_EQ(detokenizer.push(5, true), "🦙!");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ReplacesWhatCannotBecomeACharacter) {
  const ByteTokens tokens({"a", "\xC3", "\xF0\x9F\xA6", "<end>"});
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.push(1, true), "");
  EXPECT_EQ(detokenizer.push(0, true),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(detokenizer.push(2, true), "");
  EXPECT_EQ(detokenizer.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, LeavesSpecialTokensOutOnRequest) {
  const ByteTokens tokens({"a", "<end>"});
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.push(1, true), "");
  EXPECT_EQ(detokenizer.push(1, false), "<end>");
  EXPECT_EQ(detokenizer.push(99, false), "");
  EXPECT_EQ(detokenizer.push(-1, false), "");
}

TEST(Detokenizer, TakesOneSpaceOffTheStart) {
  const ByteTokens tokens({"  a", " b", "", "<end>"}, true);
  Detokenizer detokenizer(tokens);
  EXPECT_EQ(detokenizer.push(2, true), "");
  EXPECT_EQ(detokenizer.push(3, true), "");
  EXPECT_EQ(detokenizer.push(0, true), " a");
  EXPECT_EQ(detokenizer.push(1, true), " b");
  detokenizer.finish();
  EXPECT_EQ(detokenizer.push(1, true), "b") << "finish starts a new text";
  Detokenizer continuation(tokens, Detokenizer::Begin::kContinuation);
  EXPECT_EQ(continuation.push(1, true), " b");
}

TEST(Detokenizer, PropertyOutputIsTheRepairedWhole) {
  const bool held = rc::check("pieces are valid UTF-8 and join to the repaired whole", [] {
    // Bytes that make interesting beginnings are frequent.
    const auto byte = rc::gen::weightedOneOf<std::uint8_t>(
        {{3, rc::gen::element<std::uint8_t>(0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0x80, 0x9F, 0xA0, 0xBF)},
         {1, rc::gen::inRange<std::uint8_t>(0, 255)}});
    std::vector<std::string> vocabulary;
    for (const auto& token : *rc::gen::container<std::vector<std::vector<std::uint8_t>>>(
             8, rc::gen::container<std::vector<std::uint8_t>>(byte))) {
      vocabulary.emplace_back(token.begin(), token.end());
    }
    const ByteTokens tokens(vocabulary);
    const auto ids = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 9));
    Detokenizer detokenizer(tokens);
    std::string text;
    std::string bytes;
    for (const int id : ids) {
      const std::string piece = detokenizer.push(id, false);
      RC_ASSERT(!first_invalid_utf8(piece));
      text += piece;
      bytes += tokens.token_bytes(id);
    }
    text += detokenizer.finish();
    RC_ASSERT(text == repaired(bytes));
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace causeway::text::detokenizer_test
