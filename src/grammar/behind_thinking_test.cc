// What may come while a model thinks, and behind it, with a form of one text.
#include "grammar/behind_thinking.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "base/random.h"
#include "grammar/token_mask.h"

namespace causeway::grammar::behind_thinking_test {
namespace {

using request::ConstraintKind;
using request::ConstraintText;
using request::MaskState;

// Two tokens of one mark, what crosses it, and what the form is made of.
enum : TokenId { kEnd, kOpen, kClose, kHalf, kRest, kRestLine, kWord, kA, kB, kTokens = 40 };

// The form: kA, then kB, then the end.
class OneTextMatcher final : public request::TokenMatcher {
 public:
  explicit OneTextMatcher(std::vector<TokenId> output) {
    for (const TokenId token : output) advance(token);
    show();
  }
  MaskState wait(Nanos) override { return lost_ ? MaskState::kImpossible : MaskState::kReady; }
  std::span<const std::uint32_t> mask() const override { return mask_; }
  void advance(TokenId token) override {
    lost_ = lost_ || token != next();
    ++at_;
    show();
  }

 private:
  TokenId next() const { return at_ == 0 ? kA : at_ == 1 ? kB : kEnd; }
  void show() {
    mask_ = no_tokens(kTokens);
    set_bit(mask_, next(), true);
  }

  int at_ = 0;
  bool lost_ = false;
  TokenMask mask_;
};

class OneText final : public request::Constraint {
 public:
  const ConstraintText& text() const override { return text_; }
  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    return std::make_unique<OneTextMatcher>(std::move(output));
  }

 private:
  const ConstraintText text_{ConstraintKind::kRegex, "ab"};
};

class BehindThoughts : public ::testing::Test {
 protected:
  BehindThoughts() {
    tokens_->resize(kTokens, "x");
    const std::vector<std::pair<TokenId, std::string>> named = {
        {kEnd, ""},           {kOpen, ""},   {kClose, ""}, {kHalf, "</thi"}, {kRest, "nk>"},
        {kRestLine, "nk>\n"}, {kWord, "a<"}, {kA, "a"},    {kB, "b"}};
    for (const auto& [token, bytes] : named) (*tokens_)[static_cast<std::size_t>(token)] = bytes;
  }

  std::unique_ptr<request::TokenMatcher> begin(bool thinks, std::vector<TokenId> output = {},
                                               TokenId open = kOpen) {
    const BehindThinking behind{.form = OneText().text(),
                                .open = "<think>",
                                .close = "</think>",
                                .open_token = open,
                                .close_token = kClose,
                                .thinks = thinks};
    constraint_ = think_before({.text = to_constraint(behind),
                                .behind = behind,
                                .form = std::make_shared<OneText>(),
                                .tokens = tokens_,
                                .end = {kEnd}})
                      .constraint;
    return constraint_->begin(std::move(output));
  }

  static std::set<TokenId> allowed(request::TokenMatcher& matcher) {
    EXPECT_EQ(matcher.wait(Nanos(0)), MaskState::kReady);
    std::set<TokenId> out;
    const auto mask = matcher.mask();
    for (TokenId token = 0; token < kTokens; ++token) {
      if (((mask[static_cast<std::size_t>(token / 32)] >> (token % 32)) & 1) != 0)
        out.insert(token);
    }
    return out;
  }
  static std::set<TokenId> refused(request::TokenMatcher& matcher) {
    const std::set<TokenId> may = allowed(matcher);
    std::set<TokenId> out;
    for (TokenId token = 0; token < kTokens; ++token) {
      if (may.count(token) == 0) out.insert(token);
    }
    return out;
  }

  const std::shared_ptr<std::vector<std::string>> tokens_ =
      std::make_shared<std::vector<std::string>>();
  std::shared_ptr<const request::Constraint> constraint_;
};

TEST_F(BehindThoughts, TheFormHoldsBehindTheMark) {
  const auto matcher = begin(/*thinks=*/true);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kEnd}) << "it cannot end while it thinks";
  for (const TokenId token : std::vector<TokenId>{kWord, kB, kOpen, 30}) matcher->advance(token);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kEnd});
  matcher->advance(kClose);
  EXPECT_EQ(allowed(*matcher), std::set<TokenId>{kA});
  matcher->advance(kA);
  matcher->advance(kB);
  EXPECT_EQ(allowed(*matcher), std::set<TokenId>{kEnd});
}

TEST_F(BehindThoughts, AMarkMayComeInPiecesButNotGoOn) {
  const auto matcher = begin(true);
  matcher->advance(kHalf);
  EXPECT_EQ(refused(*matcher), (std::set<TokenId>{kEnd, kRestLine}));
  matcher->advance(kRest);
  EXPECT_EQ(allowed(*matcher), std::set<TokenId>{kA});
  const auto other = begin(true, {kHalf, kA});
  EXPECT_EQ(refused(*other), std::set<TokenId>{kEnd}) << "the mark was none";
  other->advance(kRest);
  EXPECT_EQ(refused(*other), std::set<TokenId>{kEnd});
  EXPECT_EQ(begin(true, {kHalf, kRestLine})->wait(Nanos(0)), MaskState::kImpossible);
}

TEST_F(BehindThoughts, TheModelMayOpenItOrNot) {
  const auto thinks = begin(/*thinks=*/false);
  EXPECT_EQ(allowed(*thinks), (std::set<TokenId>{kOpen, kA}));
  thinks->advance(kOpen);
  EXPECT_EQ(refused(*thinks), std::set<TokenId>{kEnd});
  thinks->advance(kClose);
  EXPECT_EQ(allowed(*thinks), std::set<TokenId>{kA});
  const auto answers = begin(false);
  answers->advance(kA);
  EXPECT_EQ(allowed(*answers), std::set<TokenId>{kB});
  EXPECT_EQ(allowed(*begin(false, {}, /*open=*/-1)), std::set<TokenId>{kA}) << "no such token";
  EXPECT_EQ(begin(false, {kB})->wait(Nanos(0)), MaskState::kImpossible);
}

// An answer that goes on behind its output is where it was.
TEST_F(BehindThoughts, GoesOnBehindAnyOutput) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const bool begun = random.chance(0.5);
    const auto matcher = begin(begun);
    std::vector<TokenId> output;
    for (int i = 0; i < 12; ++i) {
      const std::set<TokenId> may = allowed(*matcher);
      ASSERT_EQ(allowed(*constraint_->begin(output)), may) << "behind " << output.size();
      auto token = may.begin();
      std::advance(token, random.below(std::ssize(may)));
      if (*token == kEnd) break;
      output.push_back(*token);
      matcher->advance(output.back());
    }
  }
}

TEST(BehindThinkingText, IsReadAsItWasWritten) {
  BehindThinking behind{.form = {ConstraintKind::kJsonSchema, "{\"const\":\"ü\\\"\"}"},
                        .open = "[THINK]",
                        .close = "[/THINK]",
                        .open_token = 7,
                        .close_token = -1,
                        .thinks = true};
  const ConstraintText text = to_constraint(behind);
  EXPECT_EQ(text.kind, ConstraintKind::kCallsInText);
  EXPECT_EQ(parse_behind_thinking(text.text), behind);
  for (const char* other :
       {"", "[]", "{}", R"({"mark":"<tool_call>","call":{}})", R"({"behind_thinking":5})",
        R"({"behind_thinking":{"kind":5,"text":""},"open":"<t>","close":"<<"})",
        R"({"behind_thinking":{"kind":6,"text":""},"open":"<t>","close":"</t>"})"}) {
    EXPECT_EQ(parse_behind_thinking(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace causeway::grammar::behind_thinking_test
