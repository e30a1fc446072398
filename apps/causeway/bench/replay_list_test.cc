#include "bench/replay_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/testing/temporary_directory.h"
#include "base/testing/test_data.h"

namespace causeway::bench::replay_list_test {
namespace {

using ::testing::HasSubstr;

class ReplayList : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = directory_.path() / name;
    std::ofstream(path) << content;
    return path;
  }
  // Requests to models at seconds of a minute.
  std::string genai(const std::vector<std::pair<int, std::string>>& requests) {
    std::string content = "gmt_create,a,b,c,d,e,f,g,h,checkpoint_model_version_id,n\n";
    for (const auto& [second, model] : requests) {
      content +=
          "2024-11-15 16:57:" + std::to_string(10 + second) + ",T,S,1,G,6,2,1,3," + model + ",0\n";
    }
    return write("genai.csv", content);
  }
  TemporaryDirectory directory_;
};

bool same(const simulate::Workload& a, const simulate::Workload& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].at != b[i].at || a[i].model != b[i].model || a[i].prompt != b[i].prompt ||
        a[i].output != b[i].output) {
      return false;
    }
  }
  return true;
}

TEST_F(ReplayList, SameSeedSameList) {
  ReplayOptions options{.rate = 50, .seconds = 20};
  options.lengths =
      write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n10,1\n20,2\n30,3\n");
  const auto list = replay_list(options, 10).value();
  EXPECT_NEAR(static_cast<double>(list.size()), 1000, 120);
  EXPECT_LT(list.back().at, seconds(20));
  EXPECT_TRUE(same(list, replay_list(options, 10).value()));
  options.seed = 2;
  EXPECT_FALSE(same(list, replay_list(options, 10).value()));
}

TEST_F(ReplayList, OtherLengthsLeaveArrivalsAndModelsAsTheyAre) {
  ReplayOptions options{.rate = 50, .seconds = 5};
  const auto fixed = replay_list(options, 10).value();
  options.lengths = write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n10,1\n20,2\n");
  auto drawn = replay_list(options, 10).value();
  EXPECT_FALSE(same(fixed, drawn));
  for (auto& arrival : drawn) {
    EXPECT_EQ(arrival.prompt.count, 10 * arrival.output.count);
    arrival.prompt = Tokens(512);
    arrival.output = Tokens(64);
  }
  EXPECT_TRUE(same(fixed, drawn));
}

TEST_F(ReplayList, TimeIsSkippedAndCompressed) {
  ReplayOptions options;
  options.trace = genai({{0, "a"}, {10, "a"}, {14, "b"}, {20, "a"}, {40, "a"}});
  options.compress = 4;
  options.skip = 10;
  options.seconds = 5;  // 20 of the trace
  const auto list = replay_list(options, 3).value();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].at, Nanos(0));
  EXPECT_EQ(list[1].at, seconds(1));
  EXPECT_EQ(list[2].at, millis(2500));
  EXPECT_EQ(list[0].prompt, Tokens(512));
  EXPECT_EQ(list[0].slo.ttft, seconds(1));
  options.seconds = 0;
  EXPECT_EQ(replay_list(options, 3).value().size(), 4u);
  options.requests_max = 2;
  EXPECT_EQ(replay_list(options, 3).value().size(), 2u);
}

TEST_F(ReplayList, TheMostPopularModelIsTheFirstOfTheCatalogue) {
  ReplayOptions options;
  options.trace = genai({{0, "rare"},
                         {1, "b"},
                         {2, "often"},
                         {3, "often"},
                         {4, "often"},
                         {5, "b"},
                         {6, "a"},
                         {7, "a"}});
  const auto models = [&](std::size_t count) {
    std::vector<std::size_t> chosen;
    const auto list = replay_list(options, count).value();
    for (const auto& arrival : list) chosen.push_back(arrival.model);
    return chosen;
  };
  EXPECT_EQ(models(4), (std::vector<std::size_t>{3, 2, 0, 0, 0, 2, 1, 1}));
  EXPECT_EQ(models(2), (std::vector<std::size_t>{1, 0, 0, 0, 0, 0, 1, 1})) << "b again the first";
  options.requests_max = 1;
  EXPECT_EQ(models(4), std::vector<std::size_t>{3}) << "popular in all of the trace";
  options.requests_max = 0;
  options.zipf = 0;
  EXPECT_NE(models(4), (std::vector<std::size_t>{3, 2, 0, 0, 0, 2, 1, 1}));
}

TEST_F(ReplayList, PopularityByZipf) {
  ReplayOptions options{.rate = 1000, .seconds = 20, .zipf = 1.0};
  std::map<std::size_t, int> counts;
  const auto list = replay_list(options, 4).value();
  for (const auto& arrival : list) ++counts[arrival.model];
  EXPECT_NEAR(counts[0], 2 * counts[1], 500);
  EXPECT_NEAR(counts[0], 4 * counts[3], 700);
}

TEST_F(ReplayList, LengthsAreTheTracesOwnOrFixedAndCut) {
  ReplayOptions options;
  options.trace = write("mooncake.jsonl",
                        "{\"timestamp\": 0, \"input_length\": 900, \"output_length\": 50, "
                        "\"hash_ids\": [1, 2]}\n"
                        "{\"timestamp\": 500, \"input_length\": 0, \"output_length\": 0}\n");
  options.input_max = 600;
  options.output_max = 40;
  auto list = replay_list(options, 2).value();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].prompt, Tokens(600));
  EXPECT_EQ(list[0].output, Tokens(40));
  EXPECT_EQ(list[0].block_ids.size(), 2u);
  EXPECT_EQ(list[1].prompt, Tokens(1));
  EXPECT_EQ(list[1].output, Tokens(1));
  options.input = 33;
  list = replay_list(options, 2).value();
  EXPECT_EQ(list[0].prompt, Tokens(33));
  EXPECT_TRUE(list[0].block_ids.empty());
}

TEST_F(ReplayList, WhatCannotBeReplayedIsSaid) {
  const std::string trace = genai({{0, "a"}, {5, "b"}});
  const std::string lengths = write("l.csv", "num_prefill_tokens,num_decode_tokens\n10,1\n");
  const std::string empty = write("e.csv", "num_prefill_tokens,num_decode_tokens\n");
  const auto message = [](const ReplayOptions& options, std::size_t models = 2) {
    const auto list = replay_list(options, models);
    return list.ok() ? std::string() : list.error().message;
  };
  const auto of = [&](auto change) {
    ReplayOptions options{.trace = trace};
    change(options);
    return message(options);
  };
  EXPECT_EQ(of([](auto&) {}), "");
  EXPECT_THAT(message({.trace = trace}, 0), HasSubstr("no models"));
  EXPECT_THAT(of([](auto& o) { o.compress = 0; }), HasSubstr("--compress"));
  EXPECT_THAT(of([](auto& o) { o.compress = std::nan(""); }), HasSubstr("--compress"));
  EXPECT_THAT(of([](auto& o) { o.skip = 6; }), HasSubstr("none of its 2 requests"));
  EXPECT_THAT(of([](auto& o) { o.zipf = -1; }), HasSubstr("--zipf"));
  EXPECT_THAT(of([](auto& o) { o.output_max = 0; }), HasSubstr("--output-max"));
  EXPECT_THAT(of([&](auto& o) { o.lengths = trace; }), HasSubstr("has no lengths"));
  EXPECT_THAT(of([&](auto& o) { o.lengths = empty; }), HasSubstr("has no requests"));
  EXPECT_THAT(of([&](auto& o) {
                o.lengths = lengths;
                o.input = 5;
              }),
              HasSubstr("--lengths excludes"));
  EXPECT_THAT(of([&](auto& o) { o.trace = lengths; }), HasSubstr("no arrivals"));
  EXPECT_THAT(of([](auto& o) { o.trace = "no/such/file"; }), HasSubstr("cannot be read"));
  EXPECT_THAT(message({.compress = 2}), HasSubstr("give --trace"));
  EXPECT_THAT(message({.seconds = 0}), HasSubstr("has no end"));
  EXPECT_THAT(message({.rate = 1e6, .seconds = 100}), HasSubstr("requests"));
}

TEST(ReplayOfPublishedTraces, AlibabasModelsHavePlacesByPopularity) {
  CAUSEWAY_TEST_DATA_OR_SKIP(traces, "traces");
  ReplayOptions options;
  options.trace = *traces / "alibaba-genai-2026/lora_request_trace.csv";
  options.lengths = *traces / "sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl";
  options.skip = 17 * 86'400;
  options.compress = 480;
  options.output_max = 64;
  const auto list = replay_list(options, 87).value();
  EXPECT_GE(list.size(), 1000u);
  std::map<std::size_t, int> counts;
  for (const auto& arrival : list) {
    ++counts[arrival.model];
    EXPECT_LE(arrival.output, Tokens(64));
  }
  EXPECT_GT(counts.size(), 20u);
  EXPECT_GT(counts[0], static_cast<int>(list.size()) / 10);
}

}  // namespace
}  // namespace causeway::bench::replay_list_test
