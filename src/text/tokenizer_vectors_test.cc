// Equality with token ids that other implementations made, and what must hold on real vocabularies.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/test_data.h"
#include "text/detokenizer.h"
#include "text/testing/random_text.h"
#include "text/testing/round_trip.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace causeway::text::tokenizer_vectors_test {
namespace {

using testing::decode;

constexpr EncodeOptions kPlain{false, false};

std::unique_ptr<Tokenizer> load(const std::filesystem::path& directory) {
  return testing::loaded(load_tokenizer(directory));
}

std::vector<std::string> read_texts(const std::filesystem::path& path) {
  constexpr std::string_view kEnd = "\n__ggml_vocab_test__\n";
  const std::string all = read_bytes(path);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(kEnd, at), all.size());
    texts.push_back(all.substr(at, end - at));
    at = end + kEnd.size();
  }
  return texts;
}

std::vector<std::vector<TokenId>> read_ids(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::vector<TokenId>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    auto& ids = all.emplace_back();
    for (TokenId id = 0; numbers >> id;) ids.push_back(id);
  }
  return all;
}

struct VectorCase {
  const char* tokenizer;
  const char* vectors;
};

class Vectors : public ::testing::TestWithParam<VectorCase> {};

TEST_P(Vectors, EncodeEqually) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, std::string("tokenizers/") + GetParam().tokenizer);
  const std::string vectors = std::string("vectors/") + GetParam().vectors;
  CAUSEWAY_TEST_DATA_OR_SKIP(inputs, vectors + ".inp");
  CAUSEWAY_TEST_DATA_OR_SKIP(outputs, vectors + ".out");
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  const auto texts = read_texts(*inputs);
  const auto expected = read_ids(*outputs);
  ASSERT_EQ(texts.size(), expected.size());
  ASSERT_GE(texts.size(), 46u);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    // Twice: the second time words come from the memo.
    for (int round = 0; round < 2; ++round) {
      const auto ids = tokenizer->encode(texts[i], kPlain);
      ASSERT_TRUE(ids.ok()) << ids.error().message;
      EXPECT_EQ(*ids, expected[i]) << "text " << i << ": '" << texts[i] << "'";
      EXPECT_EQ(decode(*tokenizer, *ids, false), texts[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Real, Vectors,
                         ::testing::Values(VectorCase{"llama-3", "llama-bpe"},
                                           VectorCase{"qwen2.5", "qwen2"},
                                           VectorCase{"qwen3", "qwen2"},
                                           VectorCase{"qwen1", "qwen2"},
                                           VectorCase{"llama-2", "llama-spm"}));

class RealTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(RealTokenizer, RoundTripsRandomText) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, GetParam());
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  Random random(7);
  for (int i = 0; i < rounds(2000); ++i) {
    std::string text = testing::random_text(random, 60);
    const auto ids = tokenizer->encode(text, kPlain);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    std::string composed = text;
    if (std::string(GetParam()).find("qwen") != std::string::npos) {
      composed = testing::composed(text);  // its normaliser is NFC
    }
    // SentencePiece cannot tell its mark from a space.
    if (tokenizer->leading_space() != LeadingSpace::kKept)
      composed = testing::marks_as_spaces(composed);
    EXPECT_EQ(decode(*tokenizer, *ids, false), composed) << "round " << i << " of '" << text << "'";
  }
}

TEST_P(RealTokenizer, DecodesRandomIdsToValidText) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, GetParam());
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  Random random(11);
  for (int i = 0; i < rounds(500); ++i) {
    Detokenizer detokenizer(*tokenizer);
    std::string bytes;
    std::string text;
    bool started = false;
    for (int k = 0; k < 40; ++k) {
      const auto id = static_cast<TokenId>(random.between(-2, tokenizer->vocab_size() + 2));
      // A marked space that starts the text is the prefix that encoding puts there.
      const bool marked = bytes.empty() && tokenizer->leading_space() == LeadingSpace::kMark;
      const std::string_view own = tokenizer->token_bytes(id);
      bytes += marked && !started ? tokenizer->token_bytes_at_start(id) : std::string(own);
      started = started || !own.empty();
      const std::string piece = detokenizer.push(id, false);
      ASSERT_FALSE(first_invalid_utf8(piece)) << "id " << id;
      text += piece;
    }
    text += detokenizer.finish();
    ASSERT_FALSE(first_invalid_utf8(text));
    if (!first_invalid_utf8(bytes)) {
      EXPECT_EQ(text, bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Real, RealTokenizer,
                         ::testing::Values("tokenizers/llama-3", "tokenizers/qwen2.5",
                                           "tokenizers/qwen3", "tokenizers/qwen1",
                                           "tokenizers/llama-2", "tokenizers/mistral-v1",
                                           "models/stories260K"));

struct TraceCase {
  const char* tokenizer;
  const char* trace;
};

class ShareGpt : public ::testing::TestWithParam<TraceCase> {};

// Prompts and answers of real conversations, as another implementation made ids of them.
TEST_P(ShareGpt, DecodesAndEncodesToTheSameIds) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, std::string("tokenizers/") + GetParam().tokenizer);
  CAUSEWAY_TEST_DATA_OR_SKIP(trace, std::string("traces/sharegpt/") + GetParam().trace);
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream file(*trace);
  int texts = 0;
  for (std::string line; std::getline(file, line);) {
    const auto request = nlohmann::json::parse(line);
    for (const char* field : {"input_tok_ids", "output_tok_ids"}) {
      const auto ids = request.at(field).get<std::vector<TokenId>>();
      const std::string text = decode(*tokenizer, ids, false);
      const auto again = tokenizer->encode(text, {false, true});
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_EQ(*again, ids) << field << " of request " << texts / 2;
      ++texts;
    }
  }
  EXPECT_EQ(texts, 600);
}

INSTANTIATE_TEST_SUITE_P(
    Real, ShareGpt,
    ::testing::Values(TraceCase{"llama-3", "sharegpt-llama-3.1-8b-300-sps10.jsonl"},
                      TraceCase{"qwen3", "sharegpt-qwen3-30b-a3b-300-sps10.jsonl"}));

// The first has ranks and the second merges; both are the same vocabulary.
TEST(Qwen1, EncodesAsQwen2Does) {
  CAUSEWAY_TEST_DATA_OR_SKIP(first, "tokenizers/qwen1");
  CAUSEWAY_TEST_DATA_OR_SKIP(second, "tokenizers/qwen2.5");
  const auto ranks = load(*first);
  const auto merges = load(*second);
  ASSERT_NE(ranks, nullptr);
  ASSERT_NE(merges, nullptr);
  EXPECT_EQ(ranks->find("<|im_end|>"), merges->find("<|im_end|>"));
  EXPECT_EQ(ranks->eos(), ranks->find("<|endoftext|>"));
  EXPECT_EQ(ranks->vocab_size(), 151851);
  Random random(3);
  for (int i = 0; i < rounds(2000); ++i) {
    const std::string text = testing::random_text(random, 60);
    EXPECT_EQ(*ranks->encode(text, kPlain), *merges->encode(text, kPlain)) << text;
  }
}

TEST(Llama3, AddsAndParsesSpecialTokens) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, "tokenizers/llama-3");
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 128256);
  EXPECT_EQ(tokenizer->bos(), 128000);
  EXPECT_EQ(tokenizer->find("<|eot_id|>"), 128009);
  EXPECT_TRUE(tokenizer->is_special(128009));
  EXPECT_EQ(tokenizer->token_bytes(128009), "<|eot_id|>");
  EXPECT_EQ(*tokenizer->encode("Hello world<|eot_id|>", {}),
            (std::vector<TokenId>{128000, 9906, 1917, 128009}));
  const auto plain = tokenizer->encode("<|eot_id|>", kPlain);
  ASSERT_TRUE(plain.ok());
  EXPECT_GT(plain->size(), 1u);
  EXPECT_EQ(decode(*tokenizer, *plain, true), "<|eot_id|>");
  EXPECT_EQ(decode(*tokenizer, {9906, 128009}, true), "Hello");
  EXPECT_EQ(decode(*tokenizer, {9906, 128009}, false), "Hello<|eot_id|>");
}

TEST(Qwen3, TakesTokensFromItsConfiguration) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, "tokenizers/qwen3");
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_EQ(tokenizer->eos(), tokenizer->find("<|im_end|>"));
  EXPECT_EQ(*tokenizer->encode("<|im_start|>", {}), (std::vector<TokenId>{151644}));
  // An added token that is not special stands for itself even in a stranger's text.
  const auto tool_call = tokenizer->find("<tool_call>");
  ASSERT_TRUE(tool_call);
  EXPECT_FALSE(tokenizer->is_special(*tool_call));
  EXPECT_EQ(*tokenizer->encode("<tool_call>", kPlain), (std::vector<TokenId>{*tool_call}));
}

TEST(Llama2, PutsBosAndDummyPrefix) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, "tokenizers/llama-2");
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 32000);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(*tokenizer->encode("Hello world</s>", {}), (std::vector<TokenId>{1, 15043, 3186, 2}));
  EXPECT_EQ(*tokenizer->encode("", {}), (std::vector<TokenId>{1}));
  Detokenizer continuation(*tokenizer, Detokenizer::Begin::kContinuation);
  EXPECT_EQ(continuation.push(3186, true), " world");
}

TEST(Stories260K, DecodesItsGoldenStory) {
  CAUSEWAY_TEST_DATA_OR_SKIP(directory, "models/stories260K");
  const auto tokenizer = load(*directory);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(decode(*tokenizer, {403, 407, 261, 378, 432, 383, 286, 261, 376}, true),
            "Once upon a time, there was a little");
  const std::string text = "Once upon a time, there was a little girl named Lily.";
  const auto ids = tokenizer->encode(text, {});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->front(), 1);
  EXPECT_EQ((std::vector<TokenId>(ids->begin() + 1, ids->begin() + 10)),
            (std::vector<TokenId>{403, 407, 261, 378, 432, 383, 286, 261, 376}));
  EXPECT_EQ(decode(*tokenizer, *ids, true), text);
}

}  // namespace
}  // namespace causeway::text::tokenizer_vectors_test
