// Encoding that ends where more tokens are of no use: never a wrong number, and little work.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/test_data.h"
#include "text/bpe_model.h"
#include "text/testing/random_text.h"
#include "text/testing/rank_files.h"
#include "text/testing/round_trip.h"
#include "text/testing/up_to.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace causeway::text::encode_up_to_test {
namespace {

using Json = nlohmann::json;

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    append_utf8(spelling_of_byte(static_cast<unsigned char>(byte)), out);
  }
  return out;
}

Json file_of(Json model, Json pre_tokenizer, Json normalizer = nullptr) {
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", std::move(model)}};
}

// The bytes from `first_byte` on; of all, merges to "aa" and "aaaa".
Json byte_level(int first_byte = 0) {
  Json vocab = Json::object();
  for (int byte = first_byte; byte < 256; ++byte) {
    vocab[spelled(std::string(1, static_cast<char>(byte)))] = byte;
  }
  Json merges = Json::array();
  if (first_byte == 0) {
    vocab["aa"] = 256;
    vocab["aaaa"] = 257;
    merges = Json::array({"a a", "aa aa"});
  }
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
}

// "<0xHH>"
std::string fallback(std::size_t byte) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  return {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
}

Json characters(bool falls_back, bool fuse) {
  Json vocab = {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"aa", 3}, {" ", 4}, {"▁", 5}};
  for (std::size_t byte = 0; byte < 256 && falls_back; ++byte) vocab[fallback(byte)] = 10 + byte;
  return {{"type", "BPE"},        {"vocab", vocab},   {"merges", Json::array({"a a"})},
          {"unk_token", "<unk>"}, {"fuse_unk", fuse}, {"byte_fallback", falls_back}};
}

Json unigram(bool falls_back) {
  Json vocab = Json::array();
  const auto add = [&](const std::string& content, double score) {
    vocab.push_back(Json::array({content, score}));
  };
  add("<unk>", 0);
  for (const char* content : {"▁", "a", "aa", "▁the"}) add(content, -2.5);
  for (std::size_t byte = 0; byte < 256 && falls_back; ++byte) add(fallback(byte), -9);
  return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}, {"byte_fallback", falls_back}};
}

const Json kMetaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
const Json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
const Json kSpaces = {{"type", "WhitespaceSplit"}};

// A file of every model, with stages that drop text, or make it longer or shorter.
std::vector<Json> files() {
  const Json drops = {{"type", "Replace"}, {"pattern", {{"String", "aa"}}}, {"content", ""}};
  std::vector<Json> all = {
      file_of(byte_level(), kByteLevel),
      file_of(byte_level(), kByteLevel, drops),
      file_of(byte_level('b'), kByteLevel),
      file_of(byte_level(), {{"type", "Sequence"}, {"pretokenizers", {kSpaces, kByteLevel}}}),
      file_of(characters(true, false), nullptr),
      file_of(characters(true, true), kMetaspace),
      file_of(characters(false, true), nullptr),
      file_of(characters(false, false), kSpaces, {{"type", "NFKC"}}),
      file_of(unigram(true), kMetaspace),
      file_of(unigram(false), kMetaspace, {{"type", "Strip"}}),
      file_of({{"type", "WordLevel"}, {"vocab", {{"[UNK]", 0}, {"a", 1}}}, {"unk_token", "[UNK]"}},
              kSpaces),
      file_of({{"type", "WordPiece"},
               {"vocab", {{"[UNK]", 0}, {"a", 1}, {"##a", 2}}},
               {"unk_token", "[UNK]"},
               {"continuing_subword_prefix", "##"},
               {"max_input_chars_per_word", 100}},
              kSpaces, {{"type", "Lowercase"}})};
  all[0]["added_tokens"].push_back({{"id", 300},
                                    {"content", "<s>"},
                                    {"single_word", false},
                                    {"lstrip", true},
                                    {"rstrip", true},
                                    {"normalized", false},
                                    {"special", true}});
  return all;
}

void expect_sound(const Tokenizer& tokenizer, std::uint64_t seed, int texts) {
  Random random(seed);
  for (int i = 0; i < texts; ++i) {
    std::string text = testing::random_text(random, 60);
    if (random.chance(0.3)) text += std::string(static_cast<std::size_t>(random.below(300)), 'a');
    if (random.chance(0.3)) text += std::string(static_cast<std::size_t>(random.below(300)), ' ');
    const EncodeOptions options{random.chance(0.5), random.chance(0.5)};
    const std::int64_t most = random.below(random.chance(0.5) ? 10 : 300);
    ASSERT_EQ(testing::up_to_problem(tokenizer, text, options, most), "")
        << "text " << i << " of seed " << seed << ": '" << text << "'";
  }
}

TEST(EncodeUpTo, IsNeverWrong) {
  std::uint64_t seed = 1;
  for (const Json& file : files()) {
    const auto tokenizer = testing::loaded(load_tokenizer_json(file.dump()));
    ASSERT_NE(tokenizer, nullptr);
    SCOPED_TRACE(file.dump().substr(0, 200));
    expect_sound(*tokenizer, seed++, rounds(1000));
  }
  const auto ranks = testing::loaded(
      load_tiktoken(testing::rank_lines(testing::byte_tokens({"aa", "  ", "aaaa"}))));
  ASSERT_NE(ranks, nullptr);
  expect_sound(*ranks, seed, rounds(1000));
}

class Published : public ::testing::TestWithParam<const char*> {};

TEST_P(Published, IsNeverWrong) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, std::string("tokenizers/") + GetParam());
  const auto tokenizer = testing::loaded(load_tokenizer(*directory));
  ASSERT_NE(tokenizer, nullptr);
  expect_sound(*tokenizer, 5, rounds(1000));
  // A text of one word, no part of which need be encoded.
  const std::string word(std::size_t{4} << 20, 'x');
  const auto found = tokenizer->encode_up_to(word, {false, false}, 4096);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->ids.empty());
  EXPECT_GT(found->count, 4096);
}

INSTANTIATE_TEST_SUITE_P(Real, Published,
                         ::testing::Values("llama-2", "llama-3", "mistral-v1", "qwen1", "qwen2.5",
                                           "qwen3"),
                         [](const auto& named) {
                           std::string name = named.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST(EncodeUpTo, AWordOfManyBytesIsNotEncoded) {
  const auto tokenizer =
      testing::loaded(load_tokenizer_json(file_of(byte_level(), kByteLevel).dump()));
  ASSERT_NE(tokenizer, nullptr);
  const auto found = tokenizer->encode_up_to(std::string(4001, 'b'), {}, 1000).value();
  EXPECT_TRUE(found.ids.empty());
  EXPECT_EQ(found.count, 1001) << "no token has more than four bytes";
  EXPECT_EQ(tokenizer->encode_up_to(std::string(4000, 'b'), {}, 1000)->count, 4000)
      << "they could be enough";
}

TEST(EncodeUpTo, WordsAreEncodedUntilThereAreTooMany) {
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "bb ";
  for (const Json& file : files()) {
    if (file["model"]["type"] == "BPE" && file["pre_tokenizer"].is_null()) continue;  // one word
    const auto tokenizer = testing::loaded(load_tokenizer_json(file.dump()));
    ASSERT_NE(tokenizer, nullptr);
    const auto found = tokenizer->encode_up_to(words, {}, 20).value();
    EXPECT_GT(found.count, 20);
    EXPECT_LT(found.ids.size(), 30u) << file.dump().substr(0, 200);
  }
}

// What is left out, or is one token however long it is, proves nothing.
TEST(EncodeUpTo, BytesProveNothingWhereTheyMayBeNoTokens) {
  const std::string text(5000, 'c');
  for (const Json& file :
       {file_of(characters(false, true), nullptr), file_of(unigram(false), kMetaspace)}) {
    const auto tokenizer = testing::loaded(load_tokenizer_json(file.dump()));
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_LE(tokenizer->encode_up_to(text, {}, 10)->count, 2);
  }
  const auto gaps =
      testing::loaded(load_tokenizer_json(file_of(byte_level('d'), kByteLevel).dump()));
  ASSERT_NE(gaps, nullptr);
  EXPECT_EQ(gaps->encode_up_to(text, {}, 10)->count, 0);
}

}  // namespace
}  // namespace causeway::text::encode_up_to_test
