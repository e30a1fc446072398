#include "text/tokenizer_normalize.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>

#include "base/testing/rounds.h"
#include "text/testing/random_text.h"

namespace causeway::text::tokenizer_normalize_test {
namespace {

std::string reference_nfc(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string composed(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
  std::free(out);
  return composed;
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(testing::composed("e\xCC\x81"), "é");
  EXPECT_EQ(testing::composed("\xE2\x84\xAB"), "Å");                       // Angstrom sign
  EXPECT_EQ(testing::composed("\xE1\x84\x80\xE1\x85\xA1"), "가");          // Hangul jamo
  EXPECT_EQ(testing::composed("q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");  // below before above
  std::string out;
  EXPECT_FALSE(compose_nfc("plain, é, 中文, 가, 🦙", out));
}

TEST(Nfc, AgreesWithUtf8procOnEveryCharacter) {
  for (char32_t code = 1; code < 0x110000; code += kSanitized ? 5 : 1) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "a";
    append_utf8(code, text);
    if (code % 7 == 0) text += "\xCC\x81";
    ASSERT_EQ(testing::composed(text), reference_nfc(text)) << std::hex << std::size_t{code};
  }
}

TEST(Nfc, AgreesWithUtf8procOnRandomText) {
  Random random(4);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = testing::random_text(random, 12);
    ASSERT_EQ(testing::composed(text), reference_nfc(text)) << text;
  }
}

TEST(Nfc, UnsortedMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < rounds(500'000); ++i) text += "\xCC\x81\xCC\xA3";  // classes 230, 220, …
  const std::string out = testing::composed(text);
  EXPECT_EQ(out.substr(0, 3), "ạ");  // U+1EA1: the first mark below joins the letter
}

TEST(Normalizer, AppliesStepsInOrder) {
  Normalizer normalizer;
  normalizer.add(Normalizer::Prepend{"▁"});
  normalizer.add(Normalizer::Replace{Pattern::literal(" "), "▁"});
  std::string buffer;
  EXPECT_EQ(*normalizer.apply("a b", buffer), "▁a▁b");
  EXPECT_EQ(*normalizer.apply("", buffer), "");
}

TEST(Normalizer, ExplosionIsAnError) {
  Normalizer normalizer;
  for (int i = 0; i < 40; ++i) normalizer.add(Normalizer::Replace{Pattern::literal("a"), "aa"});
  std::string buffer;
  const auto text = normalizer.apply("a", buffer);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::text::tokenizer_normalize_test
