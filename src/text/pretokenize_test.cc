#include "text/pretokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/testing/random_text.h"

namespace causeway::text::pretokenize_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Behavior = PreTokenizer::Behavior;

std::vector<std::string> split(const PreTokenizer& splitter, std::string_view text,
                               bool first = true) {
  Words words;
  const Status status = splitter.split(text, first, words);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return {words.pieces.begin(), words.pieces.end()};
}

PreTokenizer splitter(std::string_view regex, Behavior behavior, bool invert = false) {
  PreTokenizer out;
  auto pattern = Pattern::regex(regex);
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  out.add(PreTokenizer::Split{std::move(pattern).value(), behavior, invert});
  return out;
}

// The example of the file format's documentation.
TEST(Split, HasFiveBehaviors) {
  const std::string text = "the-final--countdown";
  EXPECT_THAT(split(splitter("-", Behavior::kRemoved), text),
              ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split(splitter("-", Behavior::kIsolated), text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split(splitter("-", Behavior::kMergedWithPrevious), text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split(splitter("-", Behavior::kMergedWithNext), text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split(splitter("-", Behavior::kContiguous), text),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(split(splitter("[a-z]+", Behavior::kRemoved, true), text),
              ElementsAre("the", "final", "countdown"));
}

TEST(Split, CopesWithEmptyMatchesAndTexts) {
  EXPECT_THAT(split(splitter("", Behavior::kIsolated), "aé"), ElementsAre("a", "é"));
  EXPECT_THAT(split(splitter("x*", Behavior::kIsolated), "axxb"), ElementsAre("a", "xx", "b"));
  EXPECT_TRUE(split(splitter("x", Behavior::kIsolated), "").empty());
}

TEST(Split, StepsFollowEachOther) {
  PreTokenizer out = splitter(" ", Behavior::kRemoved);
  out.add(PreTokenizer::Split{Pattern::literal("ab"), Behavior::kIsolated, false});
  EXPECT_THAT(split(out, "xabab ab"), ElementsAre("x", "ab", "ab", "ab"));
}

TEST(Split, KeepsEveryByteWhenNothingIsRemoved) {
  Random random(2);
  const PreTokenizer llama = splitter(
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
      " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
      Behavior::kIsolated);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = testing::random_text(random, 50);
    std::string joined;
    for (const auto& piece : split(llama, text)) joined += piece;
    ASSERT_EQ(joined, text);
  }
}

TEST(Metaspace, PutsMarksAndPrefix) {
  using Prepend = PreTokenizer::Metaspace::Prepend;
  const auto with = [](Prepend prepend, bool cut) {
    PreTokenizer out;
    out.add(PreTokenizer::Metaspace{"▁", prepend, cut});
    return out;
  };
  EXPECT_THAT(split(with(Prepend::kAlways, true), "Hey you  all"),
              ElementsAre("▁Hey", "▁you", "▁", "▁all"));
  EXPECT_THAT(split(with(Prepend::kAlways, false), " a b"), ElementsAre("▁a▁b"));
  EXPECT_THAT(split(with(Prepend::kFirst, true), "a b", false), ElementsAre("a", "▁b"));
  EXPECT_THAT(split(with(Prepend::kNever, true), "a b"), ElementsAre("a", "▁b"));
}

TEST(Pattern, ReadsWhiteSpaceAsOnigurumaDoes) {
  // U+180E is no White_Space (PCRE2's own \s says otherwise); U+0085 and U+3000 are.
  const PreTokenizer space = splitter("\\s+", Behavior::kRemoved);
  EXPECT_THAT(split(space,
                    "a\xE1\xA0\x8E"
                    "b\xC2\x85"
                    "c\xE3\x80\x80"
                    "d"),
              ElementsAre("a\xE1\xA0\x8E"
                          "b",
                          "c", "d"));
  EXPECT_EQ(*pcre_from_oniguruma("[^\\s\\p{L}]\\S"), "[^\\p{White_Space}\\p{L}]\\P{White_Space}");
  EXPECT_EQ(*pcre_from_oniguruma("\\p{Han}\\u00e9\\v"), "\\p{sc:Han}\\x{00e9}\\x{0B}");
}

TEST(Pattern, ReadsWordsAsOnigurumaDoes) {
  // Superscript digits and fractions of Latin-1 are in \w, though in no class that has \w.
  const std::string text = "a²³¹¼½¾-⅓";
  EXPECT_THAT(split(splitter("\\w+", Behavior::kIsolated), text), ElementsAre("a²³¹¼½¾", "-⅓"));
  EXPECT_THAT(split(splitter("\\W+", Behavior::kIsolated), text), ElementsAre("a²³¹¼½¾", "-⅓"));
  EXPECT_THAT(split(splitter("[\\w-]+", Behavior::kRemoved), text), ElementsAre("²³¹¼½¾", "⅓"));
  EXPECT_EQ(*pcre_from_oniguruma("[\\w-]"), "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}-]");
}

TEST(Pattern, RefusesWhatPcreReadsOtherwise) {
  for (const std::string expression : {"\\h",
                                       "\\b",
                                       "\\R",
                                       "\\X",
                                       "\\K",
                                       "\\G",
                                       "\\C",
                                       "\\Q",
                                       "(?x:a)",
                                       "(?m)",
                                       "(*UTF)",
                                       "a(*FAIL)",
                                       "[[:alpha:]]",
                                       "[a[b]&&]",
                                       "[a&&]",
                                       "(?i)[a[b]]",
                                       "[a[b]",
                                       "[&&a]",
                                       "[a[[:alpha:]]]",
                                       "a{1,2}+",
                                       "\\p{Foo}",
                                       "\\p{L",
                                       "\\pL",
                                       "(?P<n>a)",
                                       "(?R)",
                                       "(?C1)",
                                       "\\u12",
                                       "[]a]",
                                       "(",
                                       ")",
                                       "[",
                                       "a**",
                                       "\\",
                                       "[\\W]",
                                       "\\0",
                                       "\\g<1>",
                                       "\\k<a>",
                                       "(?<!a+)"}) {
    const auto pattern = Pattern::regex(expression);
    ASSERT_FALSE(pattern.ok()) << expression;
    EXPECT_EQ(pattern.error().code, ErrorCode::kUnsupported) << expression;
    EXPECT_THAT(pattern.error().message, HasSubstr("regular expression")) << expression;
  }
  EXPECT_FALSE(Pattern::regex(std::string(100'000, '(')).ok());
  EXPECT_FALSE(Pattern::regex(std::string(1000, '(') + std::string(1000, ')')).ok());
}

TEST(Pattern, ReadsClassesWithinClasses) {
  const auto words = [](const char* expression) {
    return split(splitter(expression, Behavior::kRemoved), "abc-xyz");
  };
  EXPECT_THAT(words("[a-z&&[^aeiou]]"), ElementsAre("a", "-"));
  EXPECT_THAT(words("[^a-z&&[^aeiou]]+"), ElementsAre("bc", "xyz"));
  EXPECT_THAT(words("[[a-c][yz]]+"), ElementsAre("-x"));
  EXPECT_THAT(words("[[a]^b]+"), ElementsAre("c-xyz"));
  EXPECT_THAT(words("[x[b]-z]+"), ElementsAre("a", "c", "y"));
  EXPECT_THAT(words("[a-y&&b-z&&[^cx]]+"), ElementsAre("a", "c-x", "z"));
  EXPECT_FALSE(Pattern::regex(std::string(1000, '[') + "a" + std::string(1000, ']')).ok());
}

TEST(Pattern, CatastrophicBacktrackingIsAnError) {
  const auto pattern = Pattern::regex("(a+)+$");
  ASSERT_TRUE(pattern.ok());
  std::vector<Range> matches;
  const Status status = pattern->find_all(std::string(60, 'a') + "b", matches);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(status.error().message, HasSubstr("regular expression"));
}

TEST(Pattern, LongRunsStayWithinTheLimits) {
  const PreTokenizer llama = splitter(
      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
      "\\s+(?!\\S)|\\s+",
      Behavior::kIsolated);
  const std::string spaces(3'000'000, ' ');
  EXPECT_EQ(split(llama, spaces).size(), 1u);
  EXPECT_EQ(split(llama, spaces + "a").size(), 2u);
  EXPECT_EQ(split(llama, std::string(3'000'000, 'a')).size(), 1u);
  EXPECT_EQ(split(llama, std::string(3'000'000, '\n')).size(), 1u);
  // Alternatives need the expression's stack, which the machine code has little of.
  const PreTokenizer grouped = splitter("(?:a|b)+", Behavior::kIsolated);
  EXPECT_EQ(split(grouped, std::string(100'000, 'a')).size(), 1u);
}

}  // namespace
}  // namespace causeway::text::pretokenize_test
