#include "kernels/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::sampling::sampling_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How often each token is drawn at `draws` positions.
std::map<TokenId, int> draw_counts(const std::vector<float>& logits, Params params, int draws) {
  std::map<TokenId, int> counts;
  for (params.position = 0; params.position < draws; ++params.position) {
    auto copy = logits;
    ++counts[sample(copy, params).token];
  }
  return counts;
}

TEST(SamplingTest, GreedyTakesTheLowestOfEquals) {
  std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(sample(logits, {.temperature = 0}).token, 1);
  EXPECT_EQ(sample(logits, {.temperature = 1, .top_k = 1}).token, 1);
}

TEST(SamplingTest, NanIsNeverChosen) {
  std::vector<float> logits = {kNan, -5, kNan, -7};
  EXPECT_EQ(sample(logits, {.temperature = 0}).token, 1);
  for (const auto& [token, count] : draw_counts(logits, {}, 200)) EXPECT_TRUE(token % 2 == 1);
  std::vector<float> hopeless = {kNan, kNan};
  const std::vector<TokenId> allowed = {1};
  for (const Params& params :
       {Params{}, Params{.temperature = 0}, Params{.top_k = 1},
        Params{.top_p = 0.5f, .top_logprobs = 2}, Params{.top_logprobs = 0, .allowed = allowed}}) {
    const Sample none = sample(hopeless, params);
    EXPECT_EQ(none.token, kNoToken);
    EXPECT_EQ(none.logprob, 0.0f);
    EXPECT_TRUE(none.top.empty());
  }
  std::vector<float> last = {kNan, kNan, -kInfinity};
  EXPECT_EQ(sample(last, {.temperature = 0}).token, 2) << "minus infinity is a number";
  std::vector<float> minus(3, -kInfinity);
  EXPECT_EQ(sample(minus, {}).token, 0);
  std::vector<float> plus = {0, kInfinity, 0};
  EXPECT_EQ(sample(plus, {}).token, 1);
}

TEST(SamplingTest, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0, 1, 2, -1};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    const int draws = 20000;
    const auto counts = draw_counts(logits, {.temperature = temperature, .seed = 5}, draws);
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(logits[i] / temperature) / total;
      const auto found = counts.find(static_cast<TokenId>(i));
      const double share = found == counts.end() ? 0 : found->second / double{draws};
      EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / draws)) << temperature << ", token " << i;
    }
  }
}

TEST(SamplingTest, SeedAndPositionDecide) {
  Random random(testing::fresh_seed());
  const auto logits = testing::random_floats(random, 1000);
  std::set<TokenId> tokens;
  for (std::int64_t position = 0; position < 20; ++position) {
    auto a = logits, b = logits;
    const Params params{.seed = 42, .position = position};
    const TokenId token = sample(a, params).token;
    EXPECT_EQ(token, sample(b, params).token);
    tokens.insert(token);
  }
  EXPECT_GT(tokens.size(), 10u);
}

TEST(SamplingTest, TruncationsKeepExactlyTheirTokens) {
  // Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.125f),
                                     std::log(0.0625f), std::log(0.0625f)};
  const auto kept = [&](const Params& params) {
    std::set<TokenId> tokens;
    for (const auto& [token, count] : draw_counts(logits, params, 2000)) tokens.insert(token);
    return tokens;
  };
  EXPECT_EQ(kept({.top_k = 2}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(kept({.top_k = 4}), (std::set<TokenId>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_p = 0.7f}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(kept({.top_p = 0.8f}), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(kept({.top_p = 0.01f}), (std::set<TokenId>{0}));
  EXPECT_EQ(kept({.min_p = 0.2f}), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(kept({.top_p = 0.8f, .top_k = 2, .min_p = 0.9f}), (std::set<TokenId>{0}));
  EXPECT_EQ(kept({.top_k = 99}), (std::set<TokenId>{0, 1, 2, 3, 4}));
}

TEST(SamplingTest, TopPOfALargeVocabularyIsTheSmallestPrefix) {
  Random random(testing::fresh_seed());
  const auto logits = testing::random_floats(random, 3000, 0.5);
  std::vector<std::pair<double, TokenId>> sorted;
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sorted.emplace_back(-std::exp(double{logits[i]}), static_cast<TokenId>(i));
    total += std::exp(double{logits[i]});
  }
  std::sort(sorted.begin(), sorted.end());
  std::set<TokenId> allowed;
  double carried = 0;
  for (std::size_t i = 0; i < sorted.size() && carried < 0.3 * total; ++i) {
    carried -= sorted[i].first;
    allowed.insert(sorted[i].second);
  }
  for (const auto& [token, count] : draw_counts(logits, {.top_p = 0.2999f}, 500)) {
    EXPECT_TRUE(allowed.contains(token));
  }
}

TEST(SamplingTest, PenaltiesApplyToTheirTokens) {
  const std::vector<TokenId> history = {0, 1, 2, 2, 99, -1};  // prompt: 0, 1; strangers ignored
  std::vector<float> logits = {2, -2, 2, 2};
  sample(logits, {.temperature = 0,
                  .presence_penalty = 0.5f,
                  .frequency_penalty = 0.25f,
                  .repetition_penalty = 2,
                  .history = history,
                  .prompt_tokens = 2});
  EXPECT_EQ(logits, (std::vector<float>{1, -4, 1 - 0.5f - 2 * 0.25f, 2}));
}

TEST(SamplingTest, EditsComeInTheirOrder) {
  const std::vector<TokenId> allowed = {0, 2, 3, 2, 99, -1}, banned = {3, 3, 1, 77};
  const std::vector<TokenBias> bias = {{0, 1.5f}, {1, 50}, {3, 9}, {-5, 1}, {5, 1}};
  std::vector<float> logits = {1, 2, 3, 4, 5};
  const Sample result =
      sample(logits, {.temperature = 0, .allowed = allowed, .bias = bias, .banned = banned});
  EXPECT_EQ(logits, (std::vector<float>{2.5f, -kInfinity, 3, -kInfinity, -kInfinity}));
  EXPECT_EQ(result.token, 2);
}

TEST(SamplingTest, BiasIsPlainAdditionBeforePenaltiesAndTemperature) {
  const std::vector<TokenId> history = {0};
  const std::vector<TokenBias> bias = {{0, 3}, {1, -100}};
  std::vector<float> logits = {1, 90, -9};
  sample(logits, {.temperature = 0,
                  .repetition_penalty = 2,
                  .history = history,
                  .prompt_tokens = 1,
                  .bias = bias});
  EXPECT_EQ(logits, (std::vector<float>{2, -10, -9}));
}

TEST(SamplingTest, WhatIsNotAllowedIsNeverDrawn) {
  const std::vector<float> logits = {9, 0, 0.5f, 0, kNan};
  const std::vector<TokenId> allowed = {1, 2, 3}, banned = {3};
  for (const auto& [token, count] :
       draw_counts(logits, {.allowed = allowed, .banned = banned}, 400)) {
    EXPECT_TRUE(token == 1 || token == 2) << token;
    EXPECT_GT(count, 50);
  }
}

TEST(SamplingTest, AMaskComesFirstAndMayBeShort) {
  std::vector<float> logits(70, 1.0f);
  logits[3] = 5;
  const std::vector<std::uint32_t> mask = {1u << 5, 1u << 31};  // tokens 5 and 63
  const std::vector<TokenBias> bias = {{3, 100}, {63, 1}};
  const Sample result = sample(logits, {.temperature = 0, .mask = mask, .bias = bias});
  EXPECT_EQ(result.token, 63);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i], i == 5 ? 1.0f : i == 63 ? 2.0f : -kInfinity) << i;
  }
}

TEST(SamplingTest, LogprobsOfEditedLogitsAreOfTheRawOnes) {
  const std::vector<float> raw = {1, 2, 3};
  const std::vector<TokenId> banned = {2};
  std::vector<float> logits = raw;
  const Sample result = sample(logits, {.temperature = 0, .top_logprobs = 1, .banned = banned});
  double total = 0;
  for (const float logit : raw) total += std::exp(double{logit});
  EXPECT_EQ(result.token, 1);
  EXPECT_NEAR(result.logprob, 2 - std::log(total), 1e-6);
  EXPECT_EQ(result.top[0].first, 2);
}

TEST(SamplingTest, LogprobsAreOfTheRawLogits) {
  const std::vector<float> raw = {1, 2, 3, 2};
  const std::vector<TokenId> history = {2};
  std::vector<float> logits = raw;
  const Sample result = sample(
      logits, {.temperature = 0, .presence_penalty = 5, .top_logprobs = 3, .history = history});
  double total = 0;
  for (const float logit : raw) total += std::exp(double{logit});
  EXPECT_EQ(result.token, 1);  // 2 is penalised
  EXPECT_NEAR(result.logprob, 2 - std::log(total), 1e-6);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].first, 2);
  EXPECT_EQ(result.top[1].first, 1);  // of equals, the lower id first
  EXPECT_EQ(result.top[2].first, 3);
  EXPECT_NEAR(result.top[0].second, 3 - std::log(total), 1e-6);
}

}  // namespace
}  // namespace causeway::kernels::sampling::sampling_test
