#include "bench/slo_prediction.h"

#include <gtest/gtest.h>

namespace causeway::bench::slo_prediction_test {
namespace {

SloPredictionSettings settings_for(double flops) {
  SloPredictionSettings settings;
  settings.profile = simulate::find_profile("h100").value();
  settings.profile.flops_per_second = flops;
  settings.config.layers = 2;
  settings.config.hidden = 64;
  settings.config.heads = settings.config.kv_heads = 2;
  settings.config.head_dim = 32;
  settings.config.intermediate = 128;
  settings.config.vocab = 100;
  settings.config.max_position = Tokens(4096);
  settings.slice.kv = mib(64);
  settings.slo = {.ttft = millis(100), .tpot = millis(10)};
  return settings;
}

std::vector<LoadRequest> requests_at(Nanos gap) {
  std::vector<LoadRequest> requests(20);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival = gap * static_cast<std::int64_t>(i);
    requests[i].prompt.assign(200, static_cast<TokenId>(i));
    requests[i].output_tokens = 50;
  }
  return requests;
}

TEST(SloPrediction, ServesTheListInVirtualTime) {
  const auto easy = predict_slo(settings_for(1e14), requests_at(millis(50)));
  ASSERT_TRUE(easy.ok()) << easy.error().message;
  EXPECT_EQ(easy->both_attained, 1);
  // 19 gaps of 50 ms, and what the last takes.
  EXPECT_NEAR(easy->tokens_per_second, 20 * 50 / 0.95, 60);
}

TEST(SloPrediction, ASlowMachineKeepsFewerTargets) {
  // 200 prompt tokens take some 36 ms: 20 of them come within 20.
  const auto slow = predict_slo(settings_for(5e8), requests_at(millis(1)));
  ASSERT_TRUE(slow.ok()) << slow.error().message;
  EXPECT_GT(slow->ttft_attained, 0);
  EXPECT_LT(slow->ttft_attained, 0.5);
  EXPECT_LE(slow->both_attained, slow->ttft_attained);
}

TEST(SloPrediction, WithoutMemoryForKvThereIsNone) {
  auto settings = settings_for(1e14);
  settings.slice.kv = Bytes(0);
  EXPECT_FALSE(predict_slo(settings, requests_at(millis(50))).ok());
}

}  // namespace
}  // namespace causeway::bench::slo_prediction_test
