// The files beside a vocabulary that name special tokens: which of them counts, and for what.
#include "text/tokenizer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/temporary_directory.h"
#include "text/testing/round_trip.h"

namespace causeway::text::tokenizer_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Words that a text is cut into at spaces; none is an added token.
std::string word_level_file() {
  const nlohmann::json vocab = {{"?", 0},   {"a", 1},     {"<s>", 2}, {"</s>", 3},
                                {"<e>", 4}, {"<pad>", 5}, {"<x>", 6}};
  return nlohmann::json{{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                        {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "?"}}}}
      .dump();
}

std::unique_ptr<Tokenizer> with_names(const std::string& config, const std::string& map) {
  return testing::loaded(load_tokenizer_json(word_level_file(), {config, map}));
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.encode(text, {});
  EXPECT_TRUE(ids.ok());
  return std::move(ids).value();
}

TEST(SpecialTokensMap, FillsWhatTheConfigurationLacks) {
  const auto both = with_names(R"({"bos_token": "<s>"})", R"({"eos_token": {"content": "</s>"}})");
  EXPECT_EQ(both->bos(), 2);
  EXPECT_EQ(both->eos(), 3);
  const auto alone = with_names("", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  EXPECT_EQ(alone->bos(), 2);
  EXPECT_EQ(alone->eos(), 3);
}

// As in transformers, where it is what older versions wrote.
TEST(SpecialTokensMap, WinsOverTheConfiguration) {
  const std::string config = R"({"bos_token": "<s>", "eos_token": "</s>"})";
  const auto tokenizer = with_names(config, R"({"eos_token": "<e>", "bos_token": null})");
  EXPECT_EQ(tokenizer->eos(), 4);
  EXPECT_FALSE(tokenizer->bos());
}

TEST(SpecialTokensMap, DoesNotCountBesideListedTokens) {
  for (const char* map : {R"({"eos_token": "<e>", "bos_token": "<s>"})", "[", "{\"bos\"}"}) {
    const auto tokenizer = with_names(R"({"eos_token": "</s>", "added_tokens_decoder": {}})", map);
    ASSERT_NE(tokenizer, nullptr) << map;
    EXPECT_EQ(tokenizer->eos(), 3) << map;
    EXPECT_FALSE(tokenizer->bos()) << map;
  }
}

TEST(SpecialTokensMap, NamedTokensAreSpecialWhereverTheyStand) {
  const auto plain = with_names("", "");
  EXPECT_THAT(ids_of(*plain, "a<pad>a <x>"), ElementsAre(0, 6));
  EXPECT_FALSE(plain->is_special(5));
  const auto named =
      with_names("", R"({"pad_token": {"content": "<pad>", "rstrip": true}, "unk_token": "nowhere",
              "additional_special_tokens": ["<x>", {"content": "<y>"}, 7]})");
  EXPECT_THAT(ids_of(*named, "a<pad> a <x>"), ElementsAre(1, 5, 1, 6));
  EXPECT_TRUE(named->is_special(5) && named->is_special(6));
  EXPECT_FALSE(named->is_special(1));
  EXPECT_EQ(named->vocab_size(), 7) << "what the vocabulary lacks gets no id";
  EXPECT_THAT(*named->encode("<x>", {true, false}), ElementsAre(6)) << "a word of its own";
  EXPECT_THAT(*named->encode("a<x>", {true, false}), ElementsAre(0));
}

TEST(SpecialTokensMap, ListsOfBothFilesCount) {
  const auto tokenizer = with_names(R"({"additional_special_tokens": ["<e>"]})",
                                    R"({"additional_special_tokens": ["<x>"]})");
  EXPECT_THAT(ids_of(*tokenizer, "<e><x><s>"), ElementsAre(4, 6, 2));
  EXPECT_TRUE(tokenizer->is_special(4) && tokenizer->is_special(6));
  EXPECT_FALSE(tokenizer->is_special(2));
}

TEST(SpecialTokensMap, IsReadFromItsFolder) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.json") << word_level_file();
  std::ofstream(directory.path() / "special_tokens_map.json") << R"({"eos_token": "<e>"})";
  const auto tokenizer = load_tokenizer(directory.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->eos(), 4);
}

TEST(SpecialTokensMap, WrongOnesAreNamed) {
  for (const auto& [map, message] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "not an object"},
           {"{", "JSON"},
           {std::string(100'000, '['), "JSON"},
           {R"({"bos_token": 5})", "bos_token is neither"},
           {R"({"eos_token": ["</s>"]})", "eos_token is neither"},
           {R"({"eos_token": {"content": 1}})", "eos_token.content"},
           {R"({"eos_token": "<nowhere>"})", "'<nowhere>' is not a token"}}) {
    const auto tokenizer = load_tokenizer_json(word_level_file(), {"", map});
    ASSERT_FALSE(tokenizer.ok()) << map.substr(0, 80);
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(tokenizer.error().message, HasSubstr("special_tokens_map.json"));
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
  }
}

// What is no token is passed over where a model runs without it.
TEST(SpecialTokensMap, OddNamesOfOtherTokensAreIgnored) {
  const std::string huge(2000, 'x');
  for (const std::string& map :
       {std::string(R"({"pad_token": 5, "mask_token": [], "sep_token": {}, "unk_token": ""})"),
        std::string(R"({"additional_special_tokens": {"a": "<x>"}, "unk_token": null})"),
        R"({"pad_token": ")" + huge + "\", \"cls_token\": {\"content\": \"" + huge + "\"}}"}) {
    const auto parsed = parse_tokenizer_config({"", map});
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_THAT(parsed->specials, IsEmpty()) << map.substr(0, 80);
  }
}

}  // namespace
}  // namespace causeway::text::tokenizer_config_test
