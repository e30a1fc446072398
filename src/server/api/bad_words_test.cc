// Which tokens a bad word excludes, with a vocabulary that has words behind a space.
#include "server/api/bad_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/banned_words.h"
#include "server/byte_model.h"

namespace causeway::server::bad_words_test {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<fleet::CatalogueEntry> model() {
  auto entry = byte_model_entry(ModelId(0), "m", Tokens(100));
  std::string json = byte_tokenizer_json();
  const std::string vocabulary_end = R"(},"merges":[])";
  const std::size_t at = json.find(vocabulary_end);
  CAUSEWAY_CHECK(at != std::string::npos);
  json.replace(at, vocabulary_end.size(),
               R"(,"no":300,"Ġno":301,"Ġye":302,"ye":303},"merges":["n o","Ġ no","y e"])");
  auto tokenizer = text::load_tokenizer_json(json);
  CAUSEWAY_CHECK(tokenizer.ok(), tokenizer.error().message);
  entry->tokenizer = std::move(tokenizer).value();
  entry->vocab = 304;
  return entry;
}

std::vector<TokenId> excluded(const std::vector<std::string>& words) {
  GenerationRequest asked;
  asked.bad_words = words;
  request::Request request;
  const auto entry = model();
  if (const auto error = set_bad_words(asked, *entry, request)) return {-1};
  std::vector<TokenId> tokens;
  for (const auto& bias : request.logit_bias) tokens.push_back(bias.token);
  return tokens;
}

TEST(BadWords, ExcludeTheWordWithAndWithoutASpace) {
  EXPECT_THAT(excluded({"no"}), ElementsAre(300, 301));
  EXPECT_THAT(excluded({" no"}), ElementsAre(300, 301));
  // " ye" is two tokens, which are not excluded.
  EXPECT_THAT(excluded({"ye"}), ElementsAre(303));
  EXPECT_THAT(excluded({"no", "no", "n"}), ElementsAre(300, 301, 'n'));
}

// The words of several tokens that a request must not have.
std::vector<std::vector<TokenId>> banned(const std::vector<std::string>& words) {
  GenerationRequest asked;
  asked.bad_words = words;
  request::Request request;
  const auto entry = model();
  EXPECT_FALSE(set_bad_words(asked, *entry, request));
  if (request.constraint == nullptr) return {};
  auto parsed = request::parse_banned_words(request.constraint->text().text);
  EXPECT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->vocab, 304);
  return parsed->words;
}

TEST(BadWords, OfSeveralTokensAreBannedAsAWhole) {
  EXPECT_THAT(banned({"no", "ye"}), ElementsAre());
  // " nope" is as many tokens, and another word; " xno" is one more.
  EXPECT_THAT(
      banned({"nope", "xno"}),
      ElementsAre(ElementsAre(300, 'p', 'e'), ElementsAre(301, 'p', 'e'), ElementsAre('x', 300)));
  EXPECT_THAT(excluded({"nope", "no"}), ElementsAre(300, 301));
}

TEST(BadWords, LeaveAnAllowedToken) {
  const auto entry = model();
  GenerationRequest asked;
  asked.bad_words = {"xy", "no"};
  request::Request request;
  asked.allowed_token_ids = {'y', 300};
  const auto error = set_bad_words(asked, *entry, request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "bad_words");
  asked.allowed_token_ids = {'y', 'x'};
  request::Request other;
  EXPECT_FALSE(set_bad_words(asked, *entry, other));
  EXPECT_NE(other.constraint, nullptr);
}

TEST(BadWords, AreCountedWithTheBiases) {
  GenerationRequest asked;
  asked.bad_words = {"no"};
  request::Request request;
  for (std::int64_t i = 0; i < request::kEditedTokensMax - 2; ++i) {
    request.logit_bias.push_back({static_cast<TokenId>(1000 + i), 1.0f});
  }
  const auto entry = model();
  request::Request other = request;
  EXPECT_FALSE(set_bad_words(asked, *entry, request));
  other.logit_bias.push_back({5, 1.0f});
  const auto error = set_bad_words(asked, *entry, other);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "bad_words");
}

}  // namespace
}  // namespace causeway::server::bad_words_test
