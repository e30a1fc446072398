#include "model/decode_chain.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <string>

#include "model/random_model.h"
#include "model/step_work.h"

namespace causeway::model::decode_chain_test {
namespace {

std::int64_t sum_of(const std::vector<ChainStage>& stages) {
  return std::accumulate(stages.begin(), stages.end(), std::int64_t{0},
                         [](std::int64_t sum, const ChainStage& s) { return sum + s.bytes.count; });
}

std::string names_of(std::span<const ChainStage> stages) {
  std::string names;
  for (const ChainStage& s : stages) names += std::string(s.name) + (s.early ? "; " : "!; ");
  return names;
}

TEST(DecodeChain, ReadsEveryByteOfTheFloorOnce) {
  for (const FamilyTraits& traits : families()) {
    const Family family = traits.family;
    for (const bool tied : {false, true}) {
      ModelConfig c = random_model_config(family);
      c.tied_embeddings = tied;
      const double experts =
          c.moe ? static_cast<double>(sparse_layers(c) * c.moe->experts_per_token) : 0;
      const Bytes kv(c.layers * 12'345);
      const auto stages = decode_chain(c, {.storage = DType::kBF16, .experts = experts, .kv = kv});
      const Bytes floor = decode_weight_bytes_of(c, DType::kBF16, experts) + kv;
      // A byte a stage may be lost to rounding where the experts are no whole number a layer.
      EXPECT_NEAR(static_cast<double>(sum_of(stages)), static_cast<double>(floor.count),
                  static_cast<double>(stages.size()));
    }
  }
}

TEST(DecodeChain, StagesOfADenseLayer) {
  ModelConfig c = random_model_config(Family::kLlama);
  c.attention_bias = c.mlp_bias = false;
  const auto stages = decode_chain(c, {.kv = Bytes(c.layers * 1000)});
  ASSERT_EQ(std::ssize(stages), 5 * c.layers + 1);
  EXPECT_EQ(names_of(std::span(stages).first(5)), "qkv; attention; o; gate_up; down; ");
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  EXPECT_EQ(stages[0].bytes.count, 2 * ((q + 2 * kv) * c.hidden + c.hidden));
  EXPECT_EQ(stages[1].bytes.count, 1000);
  EXPECT_EQ(stages[2].bytes.count, 2 * q * c.hidden);
  EXPECT_EQ(stages[3].bytes.count, 2 * (2 * c.intermediate * c.hidden + c.hidden));
  EXPECT_EQ(stages[4].bytes.count, 2 * c.intermediate * c.hidden);
  EXPECT_EQ(stages.back().name, "head");
}

TEST(DecodeChain, StagesOfASparseLayer) {
  ModelConfig c = random_model_config(Family::kQwen3Moe);
  c.moe->sparse_step = 1;
  c.moe->dense_layers.clear();
  const auto stages =
      decode_chain(c, {.experts = static_cast<double>(3 * c.layers), .kv = Bytes(c.layers * 1000)});
  ASSERT_EQ(std::ssize(stages), 6 * c.layers + 1);
  EXPECT_EQ(names_of(std::span(stages).first(6)),
            "qkv; attention; o; router; experts gate_up!; experts down; ");
  EXPECT_EQ(stages[1].bytes.count, 1000 + 2 * 2 * c.head_dim);
  EXPECT_EQ(stages[3].bytes.count, 2 * (c.moe->experts * c.hidden + c.hidden));
  EXPECT_NEAR(static_cast<double>(stages[4].bytes.count),
              static_cast<double>(2 * 3 * 2 * c.moe->intermediate * c.hidden), 1);
  EXPECT_NEAR(static_cast<double>(stages[5].bytes.count),
              static_cast<double>(2 * 3 * c.moe->intermediate * c.hidden), 1);
}

}  // namespace
}  // namespace causeway::model::decode_chain_test
