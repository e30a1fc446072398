#include "request/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/testing/temporary_directory.h"
#include "base/testing/test_data.h"

namespace causeway::request::trace_test {
namespace {

namespace fs = std::filesystem;

class TraceFile : public ::testing::Test {
 protected:
  fs::path write(const std::string& content) {
    const fs::path path = directory_.path() / "trace";
    std::ofstream(path) << content;
    return path;
  }
  TemporaryDirectory directory_;
};

TEST_F(TraceFile, Azure) {
  const auto trace = load_trace(write("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                      "2023-11-16 18:17:04.5000000,7,2\r\n"
                                      "2023-11-16 18:17:03.2500000,4808,10\r\n"),
                                0)
                         .value();
  ASSERT_EQ(trace.entries.size(), 2u);
  EXPECT_TRUE(trace.has_arrivals);
  EXPECT_EQ(trace.entries[0].prompt, Tokens(4808));  // sorted by arrival
  EXPECT_EQ(trace.entries[0].arrival, Nanos(0));
  EXPECT_EQ(trace.entries[1].arrival, millis(1250));
  EXPECT_EQ(trace.entries[1].output, Tokens(2));
}

TEST_F(TraceFile, ShareGpt) {
  const auto trace =
      load_trace(write(R"({"input_toks": 3, "output_toks": 5, "arrival_time_ns": 42,)"
                       R"( "input_tok_ids": [5, 6, 7]})"),
                 0)
          .value();
  EXPECT_EQ(trace.entries.at(0).prompt_ids, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(trace.entries[0].output, Tokens(5));
}

TEST_F(TraceFile, AStreamIsReadAsAFileIs) {
  std::istringstream in("num_prefill_tokens,num_decode_tokens\n7,2\n9,x\n");
  const auto trace = read_trace(in, "lengths", 1);
  ASSERT_EQ(trace.value().entries.size(), 1u);
  EXPECT_EQ(trace->entries[0].prompt, Tokens(7));
  std::istringstream again(in.str());
  EXPECT_EQ(read_trace(again, "lengths", 0).error().message,
            "lengths:3: not of the file's format; is the file cut?");
}

TEST_F(TraceFile, MooncakeAndLimit) {
  const auto trace = load_trace(
      write(
          "{\"timestamp\": 10, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 1]}\n"
          "{\"timestamp\": 40, \"input_length\": 9, \"output_length\": 6, \"hash_ids\": [2]}\n"),
      1);
  ASSERT_EQ(trace.value().entries.size(), 1u);
  EXPECT_EQ(trace.value().entries[0].block_ids.size(), 2u);
}

TEST_F(TraceFile, ModelsWithoutLengths) {
  const auto trace =
      load_trace(write("gmt_create,a,b,c,d,e,f,g,h,checkpoint_model_version_id,n\n"
                       "2024-11-15 16:57:50,T,S,32.0,G,63.0,26.0,1.0,30.0,M0007,0\n"),
                 0)
          .value();
  EXPECT_TRUE(trace.has_models);
  EXPECT_FALSE(trace.has_lengths);
  EXPECT_EQ(trace.entries.at(0).model, "M0007");
}

TEST_F(TraceFile, ErrorsNameFileAndLine) {
  const auto bad = load_trace(write("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                    "2023-11-16 18:17:04,7,2\n"
                                    "2023-11-16 18:17:04,-7,2\n"),
                              0);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find(":3:"), std::string::npos) << bad.error().message;
  EXPECT_EQ(load_trace(write("what is this\n"), 0).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(load_trace("no/such/file", 0).error().code, ErrorCode::kNotFound);
}

TEST_F(TraceFile, WhatIsCutOrHostileIsRefused) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string genai = "gmt_create,a,b,c,d,e,f,g,h,checkpoint_model_version_id,n\n";
  const std::string json = R"({"timestamp": 1, "input_length": 600, "output_length": 5})";
  for (const std::string& content : {
           azure + "2023-11-16 18:17:04,7,2\n2023-11-16 18:1",
           azure + "2023-11-16 18:17:04,7",
           azure + "2023-11-16 18:17:04,7,200000000000000000000\n",
           azure + "999999999-11-16 18:17:04,7,2\n",
           azure + "-2147483648-11-16 18:17:04,7,2\n",
           azure + "2023-13-16 18:17:04,7,2\n",
           azure + std::string(5, '\0') + "\n",
           genai + "2024-11-15 16:57:50,T,S,32.0,G,63.0,26.0,1.0,30.0,M00",  // of M0007
           json + "\n" + json.substr(0, 30),
           json + "\n{\"timestamp\": 9223372036854775807, \"input_length\": 1, "
                  "\"output_length\": 1}\n",
           json + "\n{\"timestamp\": 1, \"input_length\": -1, \"output_length\": 1}\n",
           json + "\n{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, "
                  "\"hash_ids\": [-7]}\n",
           json + "\n" + std::string(100'000, '[') + "\n",
       }) {
    const auto got = load_trace(write(content), 0);
    ASSERT_FALSE(got.ok()) << content.substr(0, 200);
    EXPECT_EQ(got.error().code, ErrorCode::kCorrupt) << got.error().message;
  }
}

TEST_F(TraceFile, ALineMayBeLongerThanAPiece) {
  for (const int more : {0, 1, 2, 3}) {  // its end is before, at and behind a piece's
    const std::string start = R"({"timestamp": 1, "input_length": 600, "output_length": 5, "x": ")";
    const std::string long_line =
        start + std::string((1 << 16) - start.size() - 4 + static_cast<std::size_t>(more), 'x') +
        "\"}";
    for (const char* end : {"\n", "\r\n", ""}) {
      const auto trace = load_trace(write(long_line + "\n" + long_line + end), 0);
      ASSERT_TRUE(trace.ok()) << trace.error().message;
      EXPECT_EQ(trace->entries.size(), 2u);
    }
  }
}

TEST_F(TraceFile, ChangedBytesAreReadOrRefused) {
  const std::vector<std::string> good = {
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.5,7,2\n",
      "gmt_create,a,b,c,d,e,f,g,h,checkpoint_model_version_id,n\n"
      "2024-11-15 16:57:50,T,S,32.0,G,63.0,26.0,1.0,30.0,M0007,0\n",
      "num_prefill_tokens,num_decode_tokens\n5,4\n",
      R"({"timestamp": 10, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]})",
      R"({"input_toks": 3, "output_toks": 5, "arrival_time_ns": 42, "input_tok_ids": [5]})"};
  const std::string alphabet = "0123456789,.:-{}[]\"\n e";
  Random random(11);
  for (int i = 0; i < 200; ++i) {
    std::string text = good[static_cast<std::size_t>(random.below(std::ssize(good)))];
    for (std::int64_t n = 1 + random.below(4); n > 0; --n) {
      const auto at = static_cast<std::size_t>(random.below(std::ssize(text)));
      text[at] = alphabet[static_cast<std::size_t>(random.below(std::ssize(alphabet)))];
    }
    for (std::int64_t n = random.below(3) * random.below(20); n > 0; --n) text.pop_back();
    const auto trace = load_trace(write(text), 0);
    if (!trace.ok()) {
      EXPECT_NE(trace.error().message, "") << text;
      continue;
    }
    for (const TraceEntry& entry : trace->entries) {
      EXPECT_GE(entry.arrival, Nanos(0)) << text;
      EXPECT_GE(entry.prompt, Tokens(0)) << text;
      EXPECT_GE(entry.output, Tokens(0)) << text;
      for (const TokenId id : entry.prompt_ids) EXPECT_GE(id, 0) << text;
    }
  }
}

TEST_F(TraceFile, TokensThatNoVocabularyHasAreRefused) {
  for (const char* id : {"-1", "4294967296", "1.5", "\"7\""}) {
    const std::string line =
        R"({"input_toks": 1, "output_toks": 5, "arrival_time_ns": 42, "input_tok_ids": [)" +
        std::string(id) + "]}";
    EXPECT_EQ(load_trace(write(line), 0).error().code, ErrorCode::kCorrupt) << id;
  }
}

TEST_F(TraceFile, ALineWithoutEndIsNotRead) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string endless(std::size_t{17} << 20, '7');
  const auto second = load_trace(write(azure + endless), 0);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find(":2: the line is too long"), std::string::npos);
  EXPECT_EQ(load_trace(write(endless), 0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(load_trace(write(""), 0).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(load_trace(write(azure), 0).value().entries.empty());
}

TEST(Trace, ReadsThePublishedFiles) {
  CAUSEWAY_TEST_DATA_OR_SKIP(traces, "traces");
  const auto count = [&](const char* file) {
    return load_trace(*traces / file, 0).value().entries.size();
  };
  EXPECT_EQ(count("azure2023/AzureLLMInferenceTrace_code.csv"), 8819u);
  EXPECT_EQ(count("azure2023/AzureLLMInferenceTrace_conv.csv"), 19366u);
  EXPECT_EQ(count("mooncake/conversation_trace.jsonl"), 12031u);
  EXPECT_EQ(count("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"), 300u);
  EXPECT_EQ(count("alibaba-genai-2026/lora_request_trace.csv"), 26823u);
}

TEST(Poisson, MeanGapIsTheRate) {
  Random random(3);
  const auto arrivals = poisson_arrivals(20'000, 100.0, random);
  EXPECT_NEAR(to_seconds(arrivals.back()), 200.0, 6.0);
  EXPECT_EQ(poisson_arrivals(3, 0, random).back(), Nanos(0));
}

// The coefficient of variation of the gaps is as asked, and their mean is the rate's.
double variation(double burstiness) {
  constexpr std::int64_t kCount = 40'000;
  Random random(3);
  const auto arrivals = gamma_arrivals(kCount, 100.0, burstiness, random);
  double sum = 0, squares = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = to_seconds(arrivals[i] - arrivals[i - 1]);
    EXPECT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / (kCount - 1);
  EXPECT_NEAR(mean, 0.01, 0.0004) << burstiness;
  return std::sqrt(squares / (kCount - 1) - mean * mean) / mean;
}

TEST(Gamma, BurstinessIsTheShapeOfTheGaps) {
  for (const double burstiness : {0.1, 0.5, 1.0, 2.0, 16.0}) {
    EXPECT_NEAR(variation(burstiness) * std::sqrt(burstiness), 1, 0.05) << burstiness;
  }
  Random one(7), other(7);
  EXPECT_EQ(gamma_arrivals(100, 5, 1, one), poisson_arrivals(100, 5, other));
  EXPECT_EQ(gamma_arrivals(3, 0, 0.5, one).back(), Nanos(0));
}

}  // namespace
}  // namespace causeway::request::trace_test
