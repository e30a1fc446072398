#include "text/utf8.h"

#include <gtest/gtest.h>

#include "text/testing/random_text.h"

namespace causeway::text::utf8_test {
namespace {

TEST(Utf8, EveryScalarValueReadsBack) {
  std::string bytes;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    bytes.clear();
    append_utf8(code, bytes);
    const Utf8Unit unit = first_unit(bytes);
    ASSERT_EQ(unit.kind, Utf8Unit::Kind::kCharacter) << static_cast<unsigned>(code);
    ASSERT_EQ(unit.code, code);
    ASSERT_EQ(unit.size, bytes.size());
    ASSERT_EQ(utf8_length(static_cast<unsigned char>(bytes[0])), bytes.size());
  }
}

TEST(Utf8, RefusesWhatIsNoCharacter) {
  // Overlong forms, surrogates, beyond U+10FFFF, stray and missing continuation bytes.
  for (const std::string bytes : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                  "\x80", "\xFF", "\xC3(", "\xF0\x8F\xBF\xBF", "\xE2\x82"}) {
    EXPECT_EQ(first_invalid_utf8(bytes), 0u) << bytes;
    EXPECT_EQ(first_invalid_utf8("abcdefgh" + bytes), 8u) << bytes;
    EXPECT_EQ(first_invalid_utf8("é" + bytes + "é"), 2u) << bytes;
  }
  EXPECT_FALSE(first_invalid_utf8(""));
  EXPECT_FALSE(first_invalid_utf8("plain ASCII and é, €, 🦙"));
}

TEST(Utf8, UnitsOfBrokenTextAreMaximal) {
  using Kind = Utf8Unit::Kind;
  EXPECT_EQ(first_unit("\xF0\x9F\xA6").kind, Kind::kIncomplete);
  EXPECT_EQ(first_unit("\xF0\x9F\xA6").size, 3u);
  EXPECT_EQ(first_unit("\xF0\x9F\xA6x").kind, Kind::kInvalid);
  EXPECT_EQ(first_unit("\xF0\x9F\xA6x").size, 3u);
  EXPECT_EQ(first_unit("\xF0\x80").kind, Kind::kInvalid);
  EXPECT_EQ(first_unit("\xF0\x80").size, 1u);
}

TEST(Utf8, RandomTextIsValidUntilAByteIsBroken) {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    std::string text = testing::random_text(random, 40) + "x";
    ASSERT_FALSE(first_invalid_utf8(text));
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(text.size())));
    text[at] = '\xFF';
    const auto broken = first_invalid_utf8(text);
    ASSERT_TRUE(broken);
    EXPECT_LE(*broken, at);
    EXPECT_GT(*broken + 4, at);
  }
}

}  // namespace
}  // namespace causeway::text::utf8_test
