#include "model/rope_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include <nlohmann/json.hpp>

#include "kernels/rope/rope.h"
#include "model/config.h"
#include "model/random_model.h"

namespace causeway::model::rope_scaling_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A model of any family with this "rope_scaling", and members beside it.
json with_rope(const json& scaling, const json& beside = json::object()) {
  json text = json::parse(config_json(random_model_config(Family::kPhi3)));
  text["head_dim"] = 96;
  text["rope_theta"] = 10000.0;
  text["max_position_embeddings"] = 131072;
  text["rope_scaling"] = scaling;
  text.update(beside);
  return text;
}

ModelConfig parsed(const json& text) {
  auto config = parse_config(text.dump());
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? *std::move(config) : ModelConfig();
}

void expect_refused(const json& scaling, const std::string& name, const json& beside = {}) {
  const json text = beside.is_null() ? with_rope(scaling) : with_rope(scaling, beside);
  const auto config = parse_config(text.dump());
  ASSERT_FALSE(config.ok()) << scaling.dump();
  EXPECT_EQ(config.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(config.error().message, HasSubstr(name)) << scaling.dump();
}

double plain_scale(const ModelConfig& config) {
  return 1 / std::sqrt(static_cast<double>(config.head_dim));
}

json longrope(double of_short, double of_long) {
  return {{"type", "longrope"},
          {"short_factor", std::vector<double>(48, of_short)},
          {"long_factor", std::vector<double>(48, of_long)}};
}

TEST(RopeScaling, Llama3KeepsShortWavesDividesLongOnesAndBlendsBetween) {
  const ModelConfig config = parsed(with_rope({{"rope_type", "llama3"},
                                               {"factor", 8.0},
                                               {"low_freq_factor", 1.0},
                                               {"high_freq_factor", 4.0},
                                               {"original_max_position_embeddings", 8192}}));
  const auto plain = kernels::rope::frequencies(config.head_dim, config.rope_theta);
  const auto scaled = rope_frequencies(config);
  int kept = 0, divided = 0, blended = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double rotations = 8192 * plain[i] / (2 * std::numbers::pi);
    if (rotations > 4) {
      EXPECT_EQ(scaled[i], plain[i]);
      ++kept;
    } else if (rotations < 1) {
      EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 8);
      ++divided;
    } else {
      EXPECT_GT(scaled[i], plain[i] / 8);
      EXPECT_LT(scaled[i], plain[i]);
      ++blended;
    }
    if (i > 0) {
      EXPECT_LT(scaled[i], scaled[i - 1]);
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(divided, 0);
  EXPECT_GT(blended, 0);
  EXPECT_FLOAT_EQ(attention_scale(config), static_cast<float>(plain_scale(config)));
}

// Qwen2.5's numbers: of 64 pairs those before 24 stay, those from 40 are divided by four.
TEST(RopeScaling, YarnAsQwenUsesIt) {
  const json scaling = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const ModelConfig config = parsed(with_rope(
      scaling, {{"head_dim", 128}, {"rope_theta", 1e6}, {"max_position_embeddings", 32768}}));
  EXPECT_EQ(config.max_position, Tokens(131072));
  const auto plain = kernels::rope::frequencies(128, 1e6);
  const auto scaled = rope_frequencies(config);
  for (std::size_t i = 0; i < 64; ++i) {
    const double divided = i <= 23 ? 0 : i >= 40 ? 1 : (static_cast<double>(i) - 23) / 17;
    EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4 * divided + plain[i] * (1 - divided)) << i;
  }
  const double factor = 1.138629436111989;  // 0.1 ln 4 + 1
  EXPECT_NEAR(attention_scale(config) / plain_scale(config), factor * factor, 1e-6);
}

// DeepSeek states two scales whose quotient counts, other models the factor itself.
TEST(RopeScaling, YarnsAttentionFactorMayBeStated) {
  json scaling = {{"rope_type", "yarn"},
                  {"factor", 40.0},
                  {"original_max_position_embeddings", 4096},
                  {"mscale", 1.0},
                  {"mscale_all_dim", 1.0}};
  ModelConfig config = parsed(with_rope(scaling));
  EXPECT_NEAR(attention_scale(config) / plain_scale(config), 1, 1e-6);
  EXPECT_EQ(config.max_position, Tokens(163840));
  scaling["mscale_all_dim"] = 0.5;
  const double ratio = (0.1 * std::log(40) + 1) / (0.05 * std::log(40) + 1);
  config = parsed(with_rope(scaling));
  EXPECT_NEAR(attention_scale(config) / plain_scale(config), ratio * ratio, 1e-6);
  scaling["attention_factor"] = 1.25;
  config = parsed(with_rope(scaling));
  EXPECT_NEAR(attention_scale(config) / plain_scale(config), 1.5625, 1e-6);
}

TEST(RopeScaling, LongRopeFollowsTheServedContext) {
  const json original = {{"original_max_position_embeddings", 4096}};
  ModelConfig config = parsed(with_rope(longrope(1.5, 6), original));
  EXPECT_EQ(config.rope_scaling->factor, 32);
  const auto plain = kernels::rope::frequencies(96, 10000);
  const double factor = std::sqrt(1 + std::log(32.0) / std::log(4096.0));
  for (const std::int64_t served : {131072, 4097, 4096, 512}) {
    config.max_position = Tokens(served);
    const double divisor = served > 4096 ? 6 : 1.5;
    const auto scaled = rope_frequencies(config);
    for (std::size_t i = 0; i < 48; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / divisor) << i;
    EXPECT_NEAR(attention_scale(config) / plain_scale(config), factor * factor, 1e-6) << served;
  }
}

TEST(RopeScaling, OfAPartOfAHeadIsMultipliedAlone) {
  json scaling = longrope(1.5, 6);
  scaling["short_factor"].erase(scaling["short_factor"].begin() + 36,
                                scaling["short_factor"].end());
  scaling["long_factor"].erase(scaling["long_factor"].begin() + 36, scaling["long_factor"].end());
  const json beside = {{"original_max_position_embeddings", 4096}, {"partial_rotary_factor", 0.75}};
  const ModelConfig config = parsed(with_rope(scaling, beside));
  EXPECT_EQ(config.rotated_dim(), 72);
  const auto plain = kernels::rope::frequencies(72, 10000);
  const auto scaled = rope_frequencies(config);
  ASSERT_EQ(scaled.size(), 36u);
  for (std::size_t i = 0; i < 36; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 6) << i;
  EXPECT_DOUBLE_EQ(rope_amplitude(config), std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
  EXPECT_FLOAT_EQ(attention_scale(config), static_cast<float>(plain_scale(config)));
  expect_refused(longrope(1, 2), "short_factor", beside);
}

TEST(RopeScaling, WhatIsWrittenIsReadBack) {
  const json original = {{"original_max_position_embeddings", 4096}};
  const json all[] = {
      with_rope({{"type", "linear"}, {"factor", 2.0}}),
      with_rope({{"rope_type", "llama3"}, {"factor", 8.0}}),
      with_rope({{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16}, {"truncate", false}},
                original),
      with_rope({{"type", "yarn"}, {"attention_factor", 1.1}}, original),
      with_rope(longrope(1, 2), original)};
  for (const json& text : all) {
    const ModelConfig config = parsed(text);
    const ModelConfig again = parsed(json::parse(config_json(config)));
    EXPECT_EQ(config_json(again), config_json(config));
    EXPECT_EQ(rope_frequencies(again), rope_frequencies(config)) << text.dump();
    EXPECT_EQ(attention_scale(again), attention_scale(config)) << text.dump();
  }
  json su = longrope(1, 2);
  su["type"] = "su";
  EXPECT_EQ(parsed(with_rope(su, original)).rope_scaling->type, RopeType::kLongRope);
}

TEST(RopeScaling, WrongFieldsAreNamed) {
  expect_refused({{"type", "linear"}}, "factor");
  expect_refused({{"type", "linear"}, {"factor", 0.5}}, "factor");
  expect_refused({{"type", "yarn"}}, "factor");
  expect_refused({{"type", "yarn"}, {"factor", 1e9}}, "factor");
  expect_refused({{"type", "yarn"}, {"factor", 4}, {"beta_fast", 1}}, "beta_fast");
  expect_refused({{"type", "yarn"}, {"factor", 4}, {"attention_factor", 0}}, "attention_factor");
  expect_refused({{"type", "yarn"}, {"factor", 4}, {"truncate", 1}}, "truncate");
  expect_refused({{"type", "yarn"}, {"factor", 4}}, "original_max_position_embeddings",
                 {{"original_max_position_embeddings", 0}});
  expect_refused({{"type", "llama3"}}, "factor");
  expect_refused({{"type", "longrope"}}, "short_factor");
  json bad = longrope(1, 2);
  bad["long_factor"].erase(0);
  expect_refused(bad, "long_factor");
  bad = longrope(1, 2);
  bad["short_factor"][3] = "x";
  expect_refused(bad, "short_factor");
  bad["short_factor"][3] = 0;
  expect_refused(bad, "short_factor");
}

}  // namespace
}  // namespace causeway::model::rope_scaling_test
