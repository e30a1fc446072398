// Tokens that begin calls, cross into them and end them, with a call of one text.
#include "grammar/fenced_answer.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace causeway::grammar::fenced_answer_test {
namespace {

using request::MaskState;

const std::string kCall = "\n{\"name\": 1}";

struct Told {
  MaskState state = MaskState::kReady;  // what a call's matcher answers
  int begun = 0;
};

// One call, which is kCall behind the mark.
class OneCall final : public CallMatcher {
 public:
  OneCall(const std::vector<std::string>& tokens, std::string text, Told& told)
      : tokens_(tokens), text_(std::move(text)), told_(told) {}
  void follow(const std::vector<TokenId>& due) {
    followed_ = 0;
    for (const TokenId token : due) {
      if (closed()) return;
      text_ += tokens_[static_cast<std::size_t>(token)];
      ++followed_;
    }
  }
  MaskState wait(Nanos) override {
    if (told_.state != MaskState::kReady) return told_.state;
    return kCall.starts_with(text_) ? MaskState::kReady : MaskState::kImpossible;
  }
  std::span<const std::uint32_t> mask() const override { return mask_; }
  void advance(TokenId token) override { follow({token}); }
  bool closed() const override { return text_ == kCall; }
  std::size_t followed() const override { return followed_; }

 private:
  const std::vector<std::string>& tokens_;
  std::string text_;
  Told& told_;
  std::size_t followed_ = 0;
  const std::vector<std::uint32_t> mask_ = {7};
};

class OneCallForm final : public CallForm {
 public:
  OneCallForm(std::shared_ptr<const std::vector<std::string>> tokens, Told& told)
      : tokens_(std::move(tokens)), told_(told) {}
  bool begins_with(const std::string& text) const override { return kCall.starts_with(text); }
  std::unique_ptr<CallMatcher> begin(std::string text, std::vector<TokenId> due) const override {
    ++told_.begun;
    auto matcher = std::make_unique<OneCall>(*tokens_, std::move(text), told_);
    matcher->follow(due);
    return matcher;
  }

 private:
  const std::shared_ptr<const std::vector<std::string>> tokens_;
  Told& told_;
};

// The first 40 tokens are these, the others have one letter.
enum : TokenId {
  kEnd,
  kOpen,
  kTag,
  kTagLine,
  kTagOther,
  kLine,
  kRest,
  kThink,
  kMarkOther,
  kX = 39
};

class FencedAnswers : public ::testing::Test {
 protected:
  FencedAnswers() {
    tokens_->resize(40, "x");
    const std::vector<std::pair<TokenId, std::string>> named = {{kEnd, ""},
                                                                {kOpen, "<tool_call"},
                                                                {kTag, ">"},
                                                                {kTagLine, ">\n{"},
                                                                {kTagOther, ">x"},
                                                                {kLine, "\n"},
                                                                {kRest, kCall.substr(1)},
                                                                {kThink, ""},
                                                                {kMarkOther, "<tool_call>x"}};
    for (const auto& [token, bytes] : named) (*tokens_)[static_cast<std::size_t>(token)] = bytes;
  }

  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output = {}, bool once = false,
                                               bool thinks = false) {
    CallsInText calls{.marks = {.mark = "<tool_call>"}, .once = once, .call = "{}"};
    if (thinks) {
      calls.marks.think_open = "<think>";
      calls.marks.think_close = "</think>";
      calls.marks.thinks = true;
      calls.think_close = kThink;
    }
    auto text = to_constraint(calls);
    fenced_ = fence_answer({.text = std::move(text),
                            .calls = calls,
                            .form = std::make_unique<OneCallForm>(tokens_, told_),
                            .tokens = tokens_,
                            .end = {kEnd}});
    return fenced_.constraint->begin(std::move(output));
  }

  // The tokens below 40 that the mask refuses; none when nothing is masked.
  static std::set<TokenId> refused(request::TokenMatcher& matcher) {
    EXPECT_EQ(matcher.wait(Nanos(0)), MaskState::kReady);
    std::set<TokenId> out;
    const auto mask = matcher.mask();
    for (TokenId token = 0; token < 40 && !mask.empty(); ++token) {
      const std::uint32_t word = mask[static_cast<std::size_t>(token / 32)];
      if (((word >> (token % 32)) & 1) == 0) out.insert(token);
    }
    return out;
  }

  const std::shared_ptr<std::vector<std::string>> tokens_ =
      std::make_shared<std::vector<std::string>>();
  Told told_;
  Fenced fenced_;
};

TEST_F(FencedAnswers, OnlyWhatCrossesAMarkWronglyIsMasked) {
  const auto matcher = begin();
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kMarkOther});
  matcher->advance(kX);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kMarkOther});
  matcher->advance(kOpen);
  EXPECT_EQ(refused(*matcher), (std::set<TokenId>{kTagOther, kMarkOther}));
  matcher->advance(kLine);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kMarkOther});
  EXPECT_EQ(told_.begun, 0);
  EXPECT_EQ(matcher->mask().size(), 2u);
  EXPECT_EQ(matcher->mask()[1], 0xFFu) << "of 40 tokens";
}

TEST_F(FencedAnswers, ATokenMayCrossIntoACall) {
  const auto matcher = begin();
  matcher->advance(kOpen);
  matcher->advance(kTagLine);
  EXPECT_EQ(told_.begun, 1);
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kReady);
  EXPECT_EQ(matcher->mask()[0], 7u) << "the call's";
  (*tokens_)[kRest] = kCall.substr(2);
  matcher->advance(kRest);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{kMarkOther}) << "text again";
  matcher->advance(kX);
  matcher->advance(kOpen);
  matcher->advance(kTagOther);
  EXPECT_EQ(told_.begun, 2);
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kImpossible) << "it was not allowed";
}

TEST_F(FencedAnswers, BehindTheOnlyCallComesTheEnd) {
  const auto matcher = begin({kOpen, kTag, kLine, kRest}, /*once=*/true);
  ASSERT_EQ(matcher->wait(Nanos(0)), MaskState::kReady);
  ASSERT_EQ(matcher->mask().size(), 2u);
  EXPECT_EQ(matcher->mask()[0], 1u << kEnd);
  EXPECT_EQ(matcher->mask()[1], 0u);
}

TEST_F(FencedAnswers, OutputOfSeveralCallsIsReadOnce) {
  const auto matcher = begin({kX, kOpen, kTag, kLine, kRest, kX, kOpen, kTag, kLine, kRest, kOpen});
  told_.state = MaskState::kComputing;
  EXPECT_EQ(matcher->wait(Nanos(0)), MaskState::kComputing);
  told_.state = MaskState::kReady;
  EXPECT_EQ(refused(*matcher), (std::set<TokenId>{kTagOther, kMarkOther}));
  EXPECT_EQ(told_.begun, 2);
}

TEST_F(FencedAnswers, SpecialTokensMayEndThinking) {
  const auto matcher = begin({}, false, /*thinks=*/true);
  EXPECT_EQ(refused(*matcher), std::set<TokenId>{});
  matcher->advance(kOpen);
  matcher->advance(kTagOther);
  EXPECT_EQ(told_.begun, 0) << "it thinks";
  matcher->advance(kThink);
  matcher->advance(kOpen);
  matcher->advance(kTag);
  EXPECT_EQ(told_.begun, 1);
}

TEST(CallsInTextTest, CrossesProcessesAsText) {
  const CallsInText calls{.marks = {.mark = "[TOOL_CALLS]",
                                    .bare = "{\"name\":",
                                    .think_open = "[THINK]",
                                    .think_close = "[/THINK]",
                                    .thinks = true},
                          .think_open = 34,
                          .think_close = 35,
                          .once = true,
                          .call = R"({"type":"structural_tag"})",
                          .begins = {"\n{\"name\": \"f\"", ""}};
  const auto read = parse_calls_in_text(to_constraint(calls).text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, calls);
  for (const std::string bad :
       {"", "[]", "{}", R"({"call":1,"mark":"a"})", R"({"call":{}})", R"({"call":{},"mark":"aba"})",
        R"({"call":{},"bare":"{","think_open":"<<"})"}) {
    EXPECT_FALSE(parse_calls_in_text(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace causeway::grammar::fenced_answer_test
