#include "bench/replay_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace causeway::bench::replay_server_test {
namespace {

using ::testing::HasSubstr;

simulate::Workload list_of(std::size_t models) {
  return replay_list({.rate = 100, .seconds = 1, .input = 20, .output = 5}, models).value();
}

TEST(ReplayRequests, AreTheSameAsTheSimulatorsAre) {
  const auto list = list_of(2);
  const auto requests = replay_requests(list, {{.name = "a"}, {.name = "b"}}, 512).value();
  ASSERT_EQ(requests.size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(requests[i].arrival, list[i].at);
    EXPECT_EQ(requests[i].model, list[i].model == 0 ? "a" : "b");
    EXPECT_EQ(requests[i].output_tokens, 5);
    EXPECT_EQ(requests[i].prompt,
              simulate::request_of(list[i], static_cast<std::int64_t>(i), 512).prompt);
  }
}

TEST(ReplayRequests, WhatAModelDoesNotTakeIsSaidBefore) {
  const std::vector<ServedModel> models = {{.name = "a", .max_model_len = Tokens(24)}};
  const auto requests = replay_requests(list_of(1), models, 512);
  ASSERT_FALSE(requests.ok());
  EXPECT_THAT(requests.error().message, HasSubstr("20 and 5 tokens is more than the 24 that a"));
}

TEST(ReplayRequests, PromptsHaveTokensThatAllModelsHave) {
  const auto largest = [](const std::vector<ServedModel>& models, std::int64_t vocab) {
    TokenId most = 0;
    const auto requests = replay_requests(list_of(2), models, vocab);
    for (const LoadRequest& request : requests.value()) {
      most = std::max(most, *std::max_element(request.prompt.begin(), request.prompt.end()));
    }
    return most;
  };
  const std::vector<ServedModel> models = {{.name = "a", .vocab = 50'000},
                                           {.name = "b", .vocab = 512}};
  EXPECT_LT(largest(models, 0), 512);
  EXPECT_GT(largest(models, 0), 256);
  EXPECT_LT(largest(models, 100), 100);
  EXPECT_LT(largest({{.name = "a"}, {.name = "b"}}, 0), kPromptVocab);
  EXPECT_GT(largest({{.name = "a"}, {.name = "b"}}, 0), kPromptVocab / 2);
  const auto refused = replay_requests(list_of(2), models, 8192);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("--vocab-size 8192: b has 512 tokens only"));
}

TEST(ServedModels, AreReadFromAListing) {
  const auto models =
      read_served_models(R"({"data": [{"id": "a", "max_model_len": 4096, "vocab_size": 512,)"
                         R"( "status": "ready"}, 7, {"id": 3},)"
                         R"( {"id": "b", "max_model_len": "x", "vocab_size": -1}]})")
          .value();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].max_model_len, Tokens(4096));
  EXPECT_EQ(models[0].vocab, 512);
  EXPECT_EQ(models[0].status, "ready");
  EXPECT_EQ(models[1].name, "b");
  EXPECT_EQ(models[1].max_model_len, Tokens(0));
  EXPECT_EQ(models[1].vocab, 0);
  for (const char* none : {"", "[]", "{\"data\": []}", "{\"data\": 5}", "<html>"}) {
    EXPECT_FALSE(read_served_models(none).ok()) << none;
  }
}

}  // namespace
}  // namespace causeway::bench::replay_server_test
