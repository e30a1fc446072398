// Vocabularies of ranks made here, and hostile ones: qwen.tiktoken and tekken.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/temporary_directory.h"
#include "text/base64.h"
#include "text/rank_model.h"
#include "text/testing/rank_files.h"
#include "text/testing/round_trip.h"
#include "text/tokenizer.h"

namespace causeway::text::rank_tokenizer_test {
namespace {

using testing::base64;
using testing::byte_tokens;
using testing::decode;
using ::testing::ElementsAre;
using testing::encode;
using ::testing::HasSubstr;
using testing::loaded;
using testing::rank_lines;
using Ids = std::vector<TokenId>;
using Json = nlohmann::json;

constexpr EncodeOptions kPlain{false, false};

Json tekken(const std::vector<std::string>& words, int special = 25) {
  Json file = {{"config",
                {{"pattern", "\\p{L}+| ?[^\\p{L}]"},
                 {"default_vocab_size", special + 256 + static_cast<int>(words.size())},
                 {"default_num_special_tokens", special}}}};
  for (const std::string& token : byte_tokens(words)) {
    const std::size_t rank = file["vocab"].size();
    file["vocab"].push_back(
        {{"rank", rank}, {"token_bytes", base64(token)}, {"token_str", nullptr}});
  }
  return file;
}

// What the ranks mean, without any structure: the lowest pair of all, the leftmost of equals.
Ids naive(const std::vector<std::string>& all, const std::string& word) {
  const auto rank_of = [&](const std::string& token) {
    return std::find(all.begin(), all.end(), token) - all.begin();
  };
  std::vector<std::string> parts;
  if (rank_of(word) < std::ssize(all)) return {static_cast<TokenId>(rank_of(word))};
  for (const char byte : word) parts.emplace_back(1, byte);
  while (true) {
    std::size_t best = 0;
    std::ptrdiff_t lowest = std::ssize(all);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::ptrdiff_t rank = rank_of(parts[i] + parts[i + 1]);
      if (rank < lowest) std::tie(lowest, best) = std::pair(rank, i);
    }
    if (lowest == std::ssize(all)) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(static_cast<TokenId>(rank_of(part)));
  return ids;
}

TEST(RankModelTest, EqualsTheNaiveOne) {
  Random random(5);
  for (int round = 0; round < rounds(20); ++round) {
    std::vector<std::string> words;
    while (words.size() < 30) {
      std::string word;
      for (std::int64_t n = random.between(2, 5); n > 0; --n) word += "abc"[random.below(3)];
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    const auto all = byte_tokens(words);
    Vocabulary vocabulary;
    for (std::size_t i = 0; i < all.size(); ++i) vocabulary.add(static_cast<TokenId>(i), all[i]);
    const auto model = RankModel::build(std::move(vocabulary));
    ASSERT_TRUE(model.ok()) << model.error().message;
    MergeScratch scratch;
    for (int i = 0; i < 100; ++i) {
      std::string word;
      for (std::int64_t n = random.between(1, 90); n > 0; --n) word += "abcd"[random.below(4)];
      Ids ids;
      model->encode_word(word, scratch, ids);
      ASSERT_EQ(ids, naive(all, word)) << word;
    }
  }
}

TEST(Tiktoken, JoinsByRankWithoutMerges) {
  // "bc" is lower than "ab"; "abc" can be made of "a" and "bc" although no file says so.
  const auto tokenizer =
      loaded(load_tiktoken(rank_lines(byte_tokens({"bc", "ab", "abc", "xabcd"}))));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(encode(*tokenizer, "abd"), ElementsAre(257, 'd'));
  EXPECT_THAT(encode(*tokenizer, "xabc"), ElementsAre('x', 258));
  EXPECT_THAT(encode(*tokenizer, "xabcd"), ElementsAre(259)) << "whole, though no pair leads there";
  EXPECT_THAT(encode(*tokenizer, "xabcdd"), ElementsAre('x', 258, 'd', 'd'));
  EXPECT_EQ(decode(*tokenizer, {258, 0xC3, 0xA9, 0xC3}), "abcé\uFFFD");
  EXPECT_EQ(tokenizer->find("xabcd"), 259);
}

TEST(Tiktoken, HasTheSpecialTokensOfQwen) {
  const auto tokenizer = loaded(load_tiktoken(rank_lines(byte_tokens({}))));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 256 + 3 + 205);
  EXPECT_THAT(encode(*tokenizer, "<|im_start|>a<|im_end|><|extra_204|>"),
              ElementsAre(257, 'a', 258, 463));
  EXPECT_EQ(encode(*tokenizer, "<|im_end|>", kPlain).size(), 10u);
  EXPECT_EQ(tokenizer->eos(), 256);
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_TRUE(tokenizer->is_special(463));
  EXPECT_FALSE(tokenizer->is_special(255));
  // The whole text is composed first: the slash makes one character of the token's end.
  EXPECT_GT(encode(*tokenizer, "<|im_end|>\u0338").size(), 10u);
  EXPECT_THAT(encode(*tokenizer, "e\u0301"), ElementsAre(0xC3, 0xA9));
}

TEST(Tiktoken, HonoursTheConfiguration) {
  const auto tokenizer =
      loaded(load_tiktoken(rank_lines(byte_tokens({})), {R"({"eos_token": "<|im_end|>",
      "added_tokens_decoder": {"464": {"content": "<x>", "special": true}}})"}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos(), 258);
  EXPECT_THAT(encode(*tokenizer, "<x>"), ElementsAre(464));
}

TEST(Tiktoken, LinesMayEndAsOnWindows) {
  std::string file = rank_lines(byte_tokens({"ab"}));
  for (std::size_t at = 0; (at = file.find('\n', at)) != std::string::npos; at += 2) {
    file.insert(at, "\r");
  }
  EXPECT_THAT(encode(*loaded(load_tiktoken("\n" + file)), "ab"), ElementsAre(256));
}

TEST(Tekken, PutsSpecialTokensBeforeTheRanks) {
  const auto tokenizer = loaded(load_tekken(tekken({"ab", "<s>"}).dump()));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 25 + 258);
  EXPECT_THAT(encode(*tokenizer, "ab"), ElementsAre(1, 25 + 256));
  EXPECT_THAT(encode(*tokenizer, "[INST]ab</s>", {false, true}), ElementsAre(3, 281, 2));
  EXPECT_THAT(encode(*tokenizer, "<SPECIAL_24>", {false, true}), ElementsAre(24));
  // A word that is spelt as a special token is none.
  EXPECT_EQ(tokenizer->find("<s>"), 1);
  EXPECT_EQ(decode(*tokenizer, {282}), "<s>");
  EXPECT_FALSE(tokenizer->is_special(282));
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
}

TEST(Tekken, TakesTheListOfSpecialTokens) {
  Json file = tekken({}, 5);
  file["special_tokens"] = Json::array();
  for (const char* content : {"<unk>", "<s>", "</s>", "[THINK]"}) {
    file["special_tokens"].push_back(
        {{"rank", file["special_tokens"].size()}, {"token_str", content}, {"is_control", true}});
  }
  const auto tokenizer = loaded(load_tekken(file.dump()));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "[THINK]<SPECIAL_4>", {false, true}), ElementsAre(3, 4));
  EXPECT_EQ(encode(*tokenizer, "[INST]", {false, true}).size(), 6u);
}

TEST(RankFiles, AreFoundInAFolder) {
  const TemporaryDirectory directory;
  EXPECT_THAT(load_tokenizer(directory.path()).error().message, HasSubstr("qwen.tiktoken"));
  std::ofstream(directory.path() / "qwen.tiktoken") << rank_lines(byte_tokens({"ab"}));
  EXPECT_THAT(encode(*loaded(load_tokenizer(directory.path())), "ab"), ElementsAre(256));
  std::ofstream(directory.path() / "tekken.json") << tekken({"ab"}).dump();
  EXPECT_THAT(encode(*loaded(load_tokenizer(directory.path())), "ab"), ElementsAre(1, 281));
}

TEST(RankFiles, WrongLinesAreNamed) {
  const std::string good = rank_lines(byte_tokens({}));
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "byte 0 is no token"},
           {"YQ== 0\n", "byte 0 is no token"},
           {good + "YWI=", "line 257: not"},
           {good + "YWI= 1x", "the rank is not a number"},
           {good + "YWI= -1", "the rank is not a number"},
           {good + "YWI= 99999999999999999999", "the rank is not a number"},
           {good + "YWI= 5000000", "more than 4194304"},
           {good + "YWI= 300", "ranks up to 300"},
           {good + "YWI= 255", "occurs twice"},
           {good + "YQ== 256", "occurs twice"},
           {good + "Y*I= 256", "base64"},
           {good + "= 256", "base64"},
           {good + " 256", "base64"},
           {good + base64(std::string(1025, 'a')) + " 256", "1025 bytes"}}) {
    const auto tokenizer = load_tiktoken(file);
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
    EXPECT_THAT(tokenizer.error().message, HasSubstr("qwen.tiktoken"));
  }
}

TEST(RankFiles, WrongFieldsOfTekkenAreNamed) {
  const auto with = [](const char* pointer, const Json& value) {
    Json file = tekken({"ab"});
    file["special_tokens"] = {{{"rank", 0}, {"token_str", "<unk>"}},
                              {{"rank", 1}, {"token_str", "<s>"}},
                              {{"rank", 2}, {"token_str", "</s>"}}};
    file[Json::json_pointer(pointer)] = value;
    return file.dump();
  };
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "JSON"},
           {"{}", "config is missing"},
           {with("/config/pattern", ""), "config.pattern"},
           {with("/config/pattern", "(?<=a+)b"), "pattern"},
           {with("/config/default_num_special_tokens", 2), "config.default_num_special_tokens"},
           {with("/config/default_num_special_tokens", "25"), "config.default_num_special_tokens"},
           {with("/config/default_vocab_size", 4194305), "config.default_vocab_size"},
           {with("/config/default_vocab_size", 400), "vocab has 257 tokens"},
           {with("/config/default_vocab_size", 100), "byte 75 is no token"},
           {with("/vocab", 5), "vocab"},
           {with("/vocab/3/rank", 4), "vocab[3].rank"},
           {with("/vocab/3/token_bytes", "*"), "vocab[3]"},
           {with("/vocab/3/token_bytes", "YQ=="), "vocab[97]"},
           {with("/special_tokens", Json::array()), "special token '<s>'"},
           {with("/special_tokens/1/rank", 2), "special_tokens[1].rank"},
           {with("/special_tokens/1/token_str", ""), "special_tokens[1].token_str"},
           {with("/special_tokens/1/token_str", "</s>"), "'</s>'"}}) {
    const auto tokenizer = load_tekken(file);
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace causeway::text::rank_tokenizer_test
