#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::embedding::embedding_test {
namespace {

TEST(EmbeddingTest, CopiesTheRowsOfItsTokens) {
  Random random(testing::fresh_seed());
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const std::int64_t vocab = 31, size = 17;
    const testing::TestWeights table(random, vocab * size, dtype);
    const std::vector<TokenId> tokens = {30, 0, 5, 5};
    auto out = testing::poisoned(std::ssize(tokens) * size);
    run({.table = table.ref(),
         .vocab = vocab,
         .size = size,
         .tokens = tokens,
         .scale = 1.5f,
         .out = out.data()});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<std::size_t>(tokens[i / size]);
      EXPECT_EQ(out[i], 1.5f * static_cast<float>(table.values[row * size + i % size]));
    }
  }
}

TEST(EmbeddingDeathTest, RefusesTokensOutsideTheVocabulary) {
  const std::vector<float> table(4);
  const std::vector<TokenId> tokens = {2};
  float out[2];
  EXPECT_DEATH(run({.table = {reinterpret_cast<const std::byte*>(table.data()), DType::kF32},
                    .vocab = 2,
                    .size = 2,
                    .tokens = tokens,
                    .out = out}),
               "vocabulary");
}

}  // namespace
}  // namespace causeway::kernels::embedding::embedding_test
