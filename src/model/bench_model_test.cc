#include "model/bench_model.h"

#include <gtest/gtest.h>

#include "model/random_model.h"

namespace causeway::model {
namespace {

TEST(BenchModel, PlacesEveryWeightOnceAndAligned) {
  for (const Family family : {Family::kLlama, Family::kQwen3, Family::kQwen3Moe}) {
    const ModelConfig config = random_model_config(family);
    const auto plan = plan_weights(config, DType::kBF16);
    std::vector<std::byte> memory(to_size(PlacedModel::bytes_of(plan)));
    const PlacedModel model(plan, memory.data(), weights::WeightPlace::kHome);
    const std::byte* end = memory.data();
    std::int64_t elements = 0;
    for (const auto& group : plan.groups) {
      for (const auto& tensor : group.tensors) {
        const weights::WeightView view = model.weight(group.name, tensor.name);
        EXPECT_GE(view.data, end);
        EXPECT_EQ((view.data - memory.data()) % 256, 0);
        elements += view.rows * view.cols;
        end = view.data + 2 * view.rows * view.cols;
      }
    }
    EXPECT_LE(end, memory.data() + memory.size());
    EXPECT_EQ(elements, parameter_count(config));
  }
}

TEST(BenchModel, ALargeBatchReadsEveryExpertAndOneTokenTheChosen) {
  const ModelConfig c = random_model_config(Family::kQwen3Moe);
  const std::int64_t tables = (c.tied_embeddings ? 0 : 1) * c.vocab * c.hidden;
  const std::int64_t expert = c.layers * 3 * c.moe->intermediate * c.hidden;
  const std::int64_t all = parameter_count(c) - tables;
  EXPECT_EQ(decode_weight_bytes(c, DType::kBF16, 100'000).count, 2 * all);
  const std::int64_t left = c.moe->experts - c.moe->experts_per_token;
  EXPECT_NEAR(static_cast<double>(decode_weight_bytes(c, DType::kBF16, 1).count),
              static_cast<double>(2 * (all - left * expert)), 16);
  EXPECT_EQ(decode_weight_bytes_of(c, DType::kBF16, 7).count,
            2 * (all - (c.layers * c.moe->experts - 7) * 3 * c.moe->intermediate * c.hidden));
  const ModelConfig dense = random_model_config(Family::kLlama);
  EXPECT_EQ(decode_weight_bytes(dense, DType::kBF16, 1),
            decode_weight_bytes(dense, DType::kBF16, 64));
}

}  // namespace
}  // namespace causeway::model
