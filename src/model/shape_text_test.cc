#include "model/shape_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace causeway::model::shape_text_test {
namespace {

ModelConfig llama_1b() {
  ModelConfig c;
  c.hidden = 2048;
  c.intermediate = 8192;
  c.layers = 16;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 64;
  c.vocab = 128256;
  return c;
}

TEST(ShapeText, SaysWhatStepsAreMadeOf) {
  EXPECT_EQ(shape_text(llama_1b(), DType::kBF16),
            "16 layers of 2048, heads 32/8 of 64, MLP 8192, vocabulary 128256, BF16");
  ModelConfig c = llama_1b();
  c.moe = MoeConfig{.experts = 8, .experts_per_token = 2, .intermediate = 768, .dense_layers = {3}};
  c.sliding_window = 4096;
  c.global_layers = {true, false};
  EXPECT_EQ(shape_text(c, DType::kF32),
            "16 layers of 2048, heads 32/8 of 64, MLP 8192, vocabulary 128256, F32, 8 experts of "
            "768 in 15 layers, 2 a token, window 4096 in 8 layers");
}

TEST(ShapeText, DiffersWhereStepsDo) {
  const std::vector<std::function<void(ModelConfig&)>> changes = {
      [](ModelConfig&) {},
      [](ModelConfig& c) { c.layers = 17; },
      [](ModelConfig& c) { c.hidden = 1024; },
      [](ModelConfig& c) { c.heads = 16; },
      [](ModelConfig& c) { c.kv_heads = 4; },
      [](ModelConfig& c) { c.head_dim = 128; },
      [](ModelConfig& c) { c.intermediate = 4096; },
      [](ModelConfig& c) { c.vocab = 1000; },
      [](ModelConfig& c) { c.sliding_window = 512; },
      [](ModelConfig& c) {
        c.moe = MoeConfig{
            .experts = 8, .experts_per_token = 2, .intermediate = 768, .dense_layers = {}};
      }};
  std::set<std::string> texts;
  for (const auto& change : changes) {
    ModelConfig c = llama_1b();
    change(c);
    texts.insert(shape_text(c, DType::kBF16));
  }
  EXPECT_EQ(texts.size(), changes.size());
  EXPECT_EQ(texts.count(shape_text(llama_1b(), DType::kF32)), 0u);
  ModelConfig alike = llama_1b();
  alike.family = Family::kMistral;
  alike.rope_theta = 1e6;
  EXPECT_EQ(texts.count(shape_text(alike, DType::kBF16)), 1u);
}

}  // namespace
}  // namespace causeway::model::shape_text_test
