// The models of a tokenizer.json beside BPE, with answers of the `tokenizers` library; and hostile
// ones. tests/text/tokenizer_oracle.py compares with the library itself, on random files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/charsmap.h"
#include "text/detokenizer.h"
#include "text/testing/rank_files.h"
#include "text/testing/round_trip.h"
#include "text/tokenizer.h"

namespace causeway::text::tokenizer_json_model_test {
namespace {

using testing::base64;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

Json unigram_file(const std::string& vocab) {
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", Json::parse(vocab)}}},
          {"pre_tokenizer", {{"type", "Metaspace"}}},
          {"decoder", {{"type", "Metaspace"}}}};
}

Json word_file(const char* type) {
  return {{"model",
           {{"type", type},
            {"unk_token", "[UNK]"},
            {"vocab", Json::parse(R"({"[UNK]": 0, "play": 1, "##ing": 2, "##s": 3, "it": 4, "'": 5,
                             "[CLS]": 6, "[SEP]": 7})")}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"normalizer", {{"type", "BertNormalizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"}, {"cls", {"[CLS]", 6}}, {"sep", {"[SEP]", 7}}}},
          {"decoder", {{"type", "WordPiece"}}}};
}

Ids encode(const Json& file, std::string_view text) {
  const auto tokenizer = testing::loaded(load_tokenizer_json(file.dump()));
  return tokenizer == nullptr ? Ids{} : testing::encode(*tokenizer, text, {false, true});
}

Error error_of(const std::string& file) {
  return testing::refusal_of(load_tokenizer_json(file), file);
}

TEST(Unigram, TakesTheBestPathAndFusesWhatIsUnknown) {
  const Json file = unigram_file(R"([["<unk>", 0], ["▁", -2], ["a", -3], ["b", -3], ["ab", -7],
                                     ["▁a", -4], ["bc", -1], ["c", -8.5]])");
  EXPECT_THAT(encode(file, "ab"), ElementsAre(5, 3)) << "-7 for ▁a b, -9 for ▁ ab";
  EXPECT_THAT(encode(file, "abc"), ElementsAre(5, 6));
  EXPECT_THAT(encode(file, "axyb"), ElementsAre(5, 0, 3));
  EXPECT_THAT(encode(file, "c"), ElementsAre(1, 7));
}

TEST(Unigram, OfEqualPathsTheFirstFoundStays) {
  const Json file = unigram_file(R"([["<unk>", 0], ["▁", -1], ["▁a", -3], ["a", -2]])");
  EXPECT_THAT(encode(file, "a"), ElementsAre(2));
}

TEST(Unigram, HostileVocabulariesAreNamed) {
  const auto with = [](const std::string& piece) {
    return R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1], )" + piece + "]}}";
  };
  for (const char* piece :
       {R"(["b", NaN])", R"(["b", 1e999])", R"(["b", -Infinity])", R"(["b"])", R"("b")",
        R"(["b", "c"])", R"([1, 2])", R"(["a", -1])", R"({"b": 1})"}) {
    EXPECT_THAT(error_of(with(piece)).message, HasSubstr("model.vocab[1]")) << piece;
  }
  EXPECT_THAT(error_of(with("[\"" + std::string(1025, 'x') + "\", -1]")).message,
              HasSubstr("above 1024"));
  EXPECT_THAT(
      error_of(R"({"model": {"type": "Unigram", "unk_id": 1, "vocab": [["a", 0]]}})").message,
      HasSubstr("unk_id"));
  EXPECT_THAT(error_of(R"({"model": {"type": "Unigram", "unk_id": -1, "vocab": []}})").message,
              HasSubstr("unk_id"));
}

TEST(Unigram, WithoutAnUnknownTokenUnknownTextIsAnError) {
  Json file = unigram_file(R"([["a", -1], ["▁", -1]])");
  file["model"].erase("unk_id");
  const auto tokenizer = load_tokenizer_json(file.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_TRUE((*tokenizer)->encode("a", {}).ok());
  const auto ids = (*tokenizer)->encode("b", {});
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(ids.error().message, HasSubstr("unk_id"));
}

TEST(WordPiece, TakesTheLongestPieces) {
  EXPECT_THAT(encode(word_file("WordPiece"), "Playing it"), ElementsAre(1, 2, 4));
  EXPECT_THAT(encode(word_file("WordPiece"), "played it's"), ElementsAre(0, 4, 5, 0));
  EXPECT_THAT(encode(word_file("WordLevel"), "play playing"), ElementsAre(1, 0));
  const auto tokenizer = load_tokenizer_json(word_file("WordPiece").dump());
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(*(*tokenizer)->encode("it", {}), ElementsAre(6, 4, 7));
  Detokenizer detokenizer(**tokenizer);
  std::string text;
  for (const TokenId id : {1, 2, 4, 3}) text += detokenizer.push(id, false);
  EXPECT_EQ(text, "playing its");
}

TEST(WordPiece, AWordMayNotBeTooLong) {
  Json file = word_file("WordPiece");
  file["model"]["max_input_chars_per_word"] = 6;
  EXPECT_THAT(encode(file, "playing plays"), ElementsAre(0, 1, 3));
  file["model"]["max_input_chars_per_word"] = 1000000;
  EXPECT_THAT(error_of(file.dump()).message, HasSubstr("max_input_chars_per_word"));
}

// A trie of units, and texts: see charsmap.h.
std::string charsmap_bytes(const std::vector<std::uint32_t>& units, const std::string& texts) {
  std::string bytes;
  const auto append = [&](std::uint32_t unit) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(unit >> shift));
  };
  append(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) append(unit);
  return bytes + texts;
}

TEST(CharsmapTest, ReplacesAClusterByItsShortestKey) {
  std::vector<std::uint32_t> units(256);
  units[0] = 1u << 10;                                     // the root's children are at 1 ^ byte
  units[1 ^ 'e'] = 'e' | 1u << 8 | (1u ^ 'e' ^ 2u) << 10;  // a leaf, at 2
  units[2] = 1u << 31;                                     // the text at 0
  const auto map = Charsmap::parse(base64(charsmap_bytes(units, std::string("xy\0", 3))));
  ASSERT_TRUE(map.ok()) << map.error().message;
  std::string out;
  map->apply(
      "ae\xCC\x81"
      "b",
      100, out);
  EXPECT_EQ(out, "axyb") << "the mark goes with its letter, as in the library";
}

TEST(CharsmapTest, HostileOnesAreErrorsOrBounded) {
  for (const std::string& bytes :
       {std::string(), std::string("\1\0\0", 3), charsmap_bytes({}, "x"),
        charsmap_bytes({1, 2}, "\xFF"), charsmap_bytes({1, 2}, "").substr(0, 8)}) {
    EXPECT_FALSE(Charsmap::parse(base64(bytes)).ok());
  }
  EXPECT_FALSE(Charsmap::parse("abc").ok());
  EXPECT_FALSE(Charsmap::parse("ab*=").ok());
  // Any units at all: nothing is read outside the trie.
  for (std::uint32_t seed = 1; seed < 400; ++seed) {
    std::vector<std::uint32_t> units(1 + seed % 300);
    for (std::size_t i = 0; i < units.size(); ++i) {
      units[i] = static_cast<std::uint32_t>((i * 2654435761u + seed * 40503u) >> (seed % 17)) ^
                 static_cast<std::uint32_t>(i);
    }
    const auto map = Charsmap::parse(base64(charsmap_bytes(units, "é\0text")));
    ASSERT_TRUE(map.ok());
    std::string out;
    map->apply("The quick brown é e\xCC\x81 世界", 1000, out);
    EXPECT_LE(out.size(), 1010u);
  }
}

}  // namespace
}  // namespace causeway::text::tokenizer_json_model_test
