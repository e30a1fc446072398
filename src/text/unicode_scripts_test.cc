#include "text/unicode_scripts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace causeway::text::unicode_scripts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  split_by_script(text, parts);
  return parts;
}

TEST(UnicodeScripts, CutWhereTheScriptChanges) {
  EXPECT_THAT(parts_of("Это is 漢字!"), ElementsAre("Это ", "is ", "漢字", "!"));
  EXPECT_THAT(parts_of("a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(parts_of("e\u0301a"), ElementsAre("e", "\u0301", "a")) << "marks have their own";
}

TEST(UnicodeScripts, KanaCountAsHan) {
  EXPECT_THAT(parts_of("ひらカナー漢a"), ElementsAre("ひらカナー漢", "a"));
  EXPECT_EQ(script_of(U'ー'), script_of(U'漢'));
  EXPECT_NE(script_of(U'・'), script_of(U'漢')) << "it is common";
}

TEST(UnicodeScripts, SpacesBelongToTheScriptBefore) {
  EXPECT_THAT(parts_of("a b  é д"), ElementsAre("a b  é ", "д"));
  EXPECT_THAT(parts_of("a\u3000b"), ElementsAre("a", "\u3000", "b")) << "only U+0020 does";
  EXPECT_THAT(parts_of("  a"), ElementsAre("a")) << "without one before they are dropped";
  EXPECT_THAT(parts_of("  "), IsEmpty());
  EXPECT_THAT(parts_of(""), IsEmpty());
}

// Unicode 14 has letters at these places, Unicode 9 does not.
TEST(UnicodeScripts, UnassignedCharactersAreOfAnyScript) {
  EXPECT_THAT(parts_of("a\u0378\u0560д"), ElementsAre("a\u0378\u0560", "д"));
  for (const char32_t code : {0x20, 0x378, 0x560, 0x1F970, 0x3134A, 0xE000, 0x10FFFF}) {
    EXPECT_EQ(script_of(code), 0) << std::hex << static_cast<std::uint32_t>(code);
  }
}

TEST(UnicodeScripts, AreThoseOfUnicode9) {
  std::set<int> scripts;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    scripts.insert(script_of(code));
  }
  // Those of Unicode 9 without Hiragana and Katakana, and any.
  EXPECT_EQ(scripts.size(), 136u);
  EXPECT_EQ(*scripts.begin(), 0);
  EXPECT_EQ(*scripts.rbegin(), 135);
}

}  // namespace
}  // namespace causeway::text::unicode_scripts_test
