#include "bench/model_shapes.h"

#include <gtest/gtest.h>

#include <map>

namespace causeway::app::model_shapes_test {
namespace {

std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes(std::string_view model) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_name;
  const auto all = weight_shapes_of(model);
  for (const WeightShape& shape : *all) {
    by_name[shape.name] = {shape.n, shape.k};
  }
  return by_name;
}

using Size = std::pair<std::int64_t, std::int64_t>;

TEST(ModelShapes, AsPublished) {
  EXPECT_EQ(shapes("llama-3.2-3b")["qkv"], Size(5120, 3072));
  EXPECT_EQ(shapes("llama-3.1-8b")["qkv"], Size(6144, 4096));
  EXPECT_EQ(shapes("llama-3.1-8b")["gate_up"], Size(28672, 4096));
  EXPECT_EQ(shapes("llama-3.1-8b")["down"], Size(4096, 14336));
  EXPECT_EQ(shapes("llama-3.1-70b")["o"], Size(8192, 8192));
  EXPECT_EQ(shapes("llama-3.1-70b")["head"], Size(128256, 8192));
  EXPECT_EQ(shapes("qwen2.5-32b")["gate_up"], Size(55296, 5120));
  EXPECT_EQ(shapes("mixtral-8x7b")["expert_down"], Size(4096, 14336));
  EXPECT_EQ(shapes("qwen3-30b-a3b")["qkv"], Size(5120, 2048));
  EXPECT_EQ(shapes("qwen3-30b-a3b")["o"], Size(2048, 4096));
  EXPECT_EQ(shapes("qwen3-30b-a3b")["expert_gate_up"], Size(1536, 2048));
  EXPECT_EQ(shapes("qwen3-30b-a3b").count("gate_up"), 0u);
}

TEST(ModelShapes, EveryNameIsKnownAndAnotherIsNot) {
  for (const std::string& name : known_models()) EXPECT_TRUE(weight_shapes_of(name).ok()) << name;
  const auto none = weight_shapes_of("gpt-2");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_NE(none.error().message.find("mixtral-8x7b"), std::string::npos);
}

}  // namespace
}  // namespace causeway::app::model_shapes_test
