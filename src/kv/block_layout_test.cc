#include "kv/block_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/random.h"

namespace causeway::kv::block_layout_test {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::int64_t tokens_of(std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim) {
  return plan_block({layers, kv_heads, head_dim, DType::kBF16}, mib(4))->tokens.count;
}

TEST(BlockLayout, RealModelsInFourMebibytes) {
  EXPECT_EQ(tokens_of(32, 8, 128), 32);  // Llama-3.1-8B
  EXPECT_EQ(tokens_of(64, 8, 128), 16);  // Qwen2.5-32B
  EXPECT_EQ(tokens_of(80, 8, 128), 12);  // Llama-3.1-70B
}

TEST(BlockLayout, BlocksFitAndNoTokenMoreWould) {
  Random random(11);
  for (int i = 0; i < 2'000; ++i) {
    const KvShape shape{random.between(1, 100), random.between(1, 17), random.between(1, 300),
                        random.chance(0.5) ? DType::kF32 : DType::kBF16};
    const Bytes frame(random.between(1, 1 << 22));
    const auto layout = plan_block(shape, frame);
    const Bytes token = size_of(shape.dtype) * (2 * shape.layers * shape.kv_heads * shape.head_dim);
    if (!layout.ok()) {
      EXPECT_GT(token, frame);
      continue;
    }
    EXPECT_GE(layout->tokens.count, 1);
    const Bytes end = layout->key_offset(shape.layers - 1) + layout->kv_stride * 2;
    EXPECT_LE(end, frame);
    EXPECT_GT(end + token, frame);
    EXPECT_EQ(layout->kv_stride, layout->token_stride * layout->tokens.count);
    EXPECT_EQ(layout->key_offset(shape.layers), end);
  }
}

TEST(BlockLayout, HostileShapesAreErrors) {
  const std::vector<KvShape> shapes = {{0, 1, 1},
                                       {1, 0, 1},
                                       {1, 1, 0},
                                       {-1, 8, 128},
                                       {1, -8, 128},
                                       {1, 8, -128},
                                       {kMax, 1, 1},
                                       {1, kMax, 2},
                                       {kMax, kMax, kMax},
                                       {1, 1, kMax / 2},
                                       {1 << 30, 1 << 30, 1 << 30}};
  for (const KvShape& shape : shapes) {
    const auto layout = plan_block(shape, mib(4));
    ASSERT_FALSE(layout.ok());
    EXPECT_EQ(layout.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(plan_block({1, 1, 1}, Bytes(0)).ok());
  EXPECT_FALSE(plan_block({1, 1, 1}, Bytes(-5)).ok());
}

TEST(BlockLayout, ErrorTellsSizes) {
  const auto layout = plan_block({32, 8, 128}, kib(64));
  EXPECT_NE(layout.error().message.find("131072 bytes"), std::string::npos);
  EXPECT_NE(layout.error().message.find("65536 bytes"), std::string::npos);
}

}  // namespace
}  // namespace causeway::kv::block_layout_test
