#include "model/step_work.h"

#include <gtest/gtest.h>

#include "model/random_model.h"

namespace causeway::model::step_work_test {
namespace {

TEST(StepWork, ALargeBatchReadsEveryExpertAndOneTokenTheChosen) {
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
}  // namespace causeway::model::step_work_test
