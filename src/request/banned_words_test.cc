// Compares with a naive evaluation of the rule for every output and every token.
#include "request/banned_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/rounds.h"

namespace causeway::request::banned_words_test {
namespace {

using ::testing::ElementsAre;

using Word = std::vector<TokenId>;

std::shared_ptr<const Constraint> banning(std::int64_t vocab, std::vector<Word> words) {
  auto constraint = ban_words({vocab, std::move(words)});
  EXPECT_TRUE(constraint.ok());
  return constraint.ok() ? std::move(constraint).value() : nullptr;
}

// The tokens of a vocabulary that the mask excludes. Bits beyond the vocabulary must be 0.
std::vector<TokenId> left_out(const TokenMatcher& matcher, std::int64_t vocab) {
  std::vector<TokenId> out;
  const auto mask = matcher.mask();
  EXPECT_EQ(std::ssize(mask), (vocab + 31) / 32);
  for (std::int64_t token = 0; token < std::ssize(mask) * 32; ++token) {
    const bool in = (mask[static_cast<std::size_t>(token / 32)] >> (token % 32) & 1) != 0;
    if (token >= vocab) {
      EXPECT_FALSE(in) << token;
    } else if (!in) {
      out.push_back(static_cast<TokenId>(token));
    }
  }
  return out;
}

TEST(BannedWords, ForbidTheLastTokenBehindTheOthers) {
  const auto constraint = banning(70, {{1, 2}, {1, 2, 69}, {1, 1, 3}});
  const auto matcher = constraint->begin({});
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kReady);
  EXPECT_TRUE(left_out(*matcher, 70).empty());
  matcher->advance(1);
  EXPECT_THAT(left_out(*matcher, 70), ElementsAre(2));
  matcher->advance(1);
  EXPECT_THAT(left_out(*matcher, 70), ElementsAre(2, 3));
  matcher->advance(5);
  EXPECT_TRUE(left_out(*matcher, 70).empty());
  const auto later = constraint->begin({4, 1, 2});
  EXPECT_THAT(left_out(*later, 70), ElementsAre(69)) << "behind an output that was delivered";
}

TEST(BannedWords, OfOneTokenAreForbiddenEverywhere) {
  const auto matcher = banning(32, {{31}, {0}})->begin({});
  EXPECT_THAT(left_out(*matcher, 32), ElementsAre(0, 31));
  matcher->advance(7);
  EXPECT_THAT(left_out(*matcher, 32), ElementsAre(0, 31));
}

TEST(BannedWords, ThatLeaveNothingSaySo) {
  const auto matcher = banning(2, {{0, 0}, {0, 1}})->begin({});
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kReady);
  matcher->advance(0);
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kImpossible);
}

TEST(BannedWords, AreAsTheRuleSaysOnRandomOutputs) {
  Random random(5);
  for (int round = 0; round < rounds(300); ++round) {
    const std::int64_t vocab = random.between(2, 66);
    std::vector<Word> words(static_cast<std::size_t>(random.between(1, 8)));
    for (Word& word : words) {
      word.resize(static_cast<std::size_t>(random.between(1, 4)));
      for (TokenId& token : word)
        token = static_cast<TokenId>(random.below(std::min<std::int64_t>(vocab, 3)));
    }
    Word output;
    for (std::int64_t n = random.below(6); n > 0; --n) {
      output.push_back(static_cast<TokenId>(random.below(3)));
    }
    const auto matcher = banning(vocab, words)->begin(output);
    for (int step = 0; step < 12; ++step) {
      std::vector<TokenId> wanted;
      for (TokenId token = 0; token < vocab; ++token) {
        Word all = output;
        all.push_back(token);
        const auto ends = [&](const Word& word) {
          return word.size() <= all.size() && std::equal(word.rbegin(), word.rend(), all.rbegin());
        };
        if (std::any_of(words.begin(), words.end(), ends)) wanted.push_back(token);
      }
      ASSERT_EQ(left_out(*matcher, vocab), wanted) << "round " << round << ", step " << step;
      const auto next = static_cast<TokenId>(random.below(std::min<std::int64_t>(vocab, 4)));
      matcher->advance(next);
      output.push_back(next);
    }
  }
}

TEST(BannedWords, CrossProcessesAsText) {
  const BannedWords banned{128256, {{1, 128255}, {7}, {3, 3, 3}}};
  const auto constraint = ban_words(banned);
  ASSERT_TRUE(constraint.ok());
  EXPECT_EQ((*constraint)->text().kind, ConstraintKind::kBannedWords);
  const auto again = parse_banned_words((*constraint)->text().text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, banned);
}

TEST(BannedWords, AnythingElseIsRefused) {
  for (const std::string text :
       {"", ";", "5", "5;", "5;1,", "5;,1", "5;1;", "5;5", "5;-1", "0;0", "x;1", "5;1x", "5;1,2 ",
        "99999999;1", "5;99999999999999999999", "-5;1", "5;1,4194304"}) {
    const auto banned = parse_banned_words(text);
    EXPECT_FALSE(banned.ok()) << text;
  }
  EXPECT_FALSE(ban_words({5, {}}).ok());
  EXPECT_FALSE(ban_words({5, {{}}}).ok());
  EXPECT_FALSE(ban_words({5, {{1}, {5}}}).ok());
  EXPECT_FALSE(ban_words({5, {Word(1025, 1)}}).ok());
}

}  // namespace
}  // namespace causeway::request::banned_words_test
