#include "client/workload.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/testing/temporary_directory.h"

namespace causeway::bench::workload_test {
namespace {

WorkloadOptions synthetic() {
  WorkloadOptions options;
  options.models = {"a", "b"};
  options.requests = 200;
  return options;
}

TEST(Workload, SameSeedSameRequests) {
  const auto first = make_workload(synthetic()).value();
  const auto second = make_workload(synthetic()).value();
  auto other_options = synthetic();
  other_options.seed = 2;
  const auto other = make_workload(other_options).value();
  bool differs = false;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].prompt, second[i].prompt);
    EXPECT_EQ(first[i].model, second[i].model);
    differs |= first[i].prompt != other[i].prompt;
  }
  EXPECT_TRUE(differs);
}

TEST(Workload, LengthsModelsAndTokensAreAsAsked) {
  auto options = synthetic();
  options.input_tokens = 100;
  options.length_spread = 0.2;
  options.vocab = 10;
  std::set<std::string> models;
  const auto requests = make_workload(options).value();
  for (const auto& request : requests) {
    models.insert(request.model);
    EXPECT_GE(request.prompt.size(), 80u);
    EXPECT_LE(request.prompt.size(), 120u);
    for (const TokenId id : request.prompt) EXPECT_LT(id, 10);
    EXPECT_EQ(request.arrival, Nanos(0)) << "no rate: all at once";
  }
  EXPECT_EQ(models.size(), 2u);
}

TEST(Workload, PoissonRate) {
  auto options = synthetic();
  options.requests = 5000;
  options.requests_per_second = 50;
  EXPECT_NEAR(to_seconds(make_workload(options).value().back().arrival), 100.0, 6.0);
}

TEST(Workload, EqualTraceBlocksGiveEqualPrefixes) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "blocks.jsonl";
  std::ofstream(file)
      << R"({"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [7, 8]})"
      << "\n"
      << R"({"timestamp": 2000, "input_length": 900, "output_length": 6, "hash_ids": [7, 9]})"
      << "\n";
  auto options = synthetic();
  options.trace = file;
  options.time_scale = 0.5;
  options.output_tokens_max = 5;
  const auto requests = make_workload(options).value();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].arrival, seconds(1));
  EXPECT_EQ(requests[1].output_tokens, 5);
  EXPECT_EQ(requests[0].prompt.size(), 700u);
  const auto& a = requests[0].prompt;
  const auto& b = requests[1].prompt;
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 512, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 512, a.end(), b.begin() + 512));
}

TEST(Workload, RefusesNonsense) {
  auto options = synthetic();
  options.models.clear();
  EXPECT_FALSE(make_workload(options).ok());
  options = synthetic();
  options.trace = "no/such/file";
  EXPECT_FALSE(make_workload(options).ok());
}

}  // namespace
}  // namespace causeway::bench::workload_test
