#include "model/step_traffic.h"

#include <gtest/gtest.h>

namespace causeway::model::step_traffic_test {
namespace {

ModelConfig llama_8b() {
  ModelConfig c;
  c.hidden = 4096;
  c.intermediate = 14336;
  c.layers = 32;
  c.heads = 32;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.vocab = 128256;
  return c;
}

double out_passes(const ModelConfig& config, std::int64_t rows, int sms) {
  const auto passes = activation_passes(config, rows, sms);
  EXPECT_TRUE(passes.ok());
  EXPECT_DOUBLE_EQ(passes->x, 1) << "no way reads x again from HBM where nothing is staged";
  return passes->out;
}

TEST(StepTraffic, CountsWhatIsReadAgain) {
  // By row: qkv writes 6,144, o 4,096 and reads as many, gate and up 14,336 twice, which is read
  // and written once more, down as o.
  const double once = 6144 + 4096 + 14336 + 4096;
  const double apart = (once + 4096 + 4 * 14336 + 4096) / once;
  EXPECT_DOUBLE_EQ(out_passes(llama_8b(), 512, 0), apart);
  // By clusters that share what they fetch, which write gate and up apart, too.
  for (const std::int64_t rows : {1, 512, 8192}) {
    EXPECT_DOUBLE_EQ(out_passes(llama_8b(), rows, 132), apart);
  }
}

TEST(StepTraffic, WhatIsActivatedBehindTheProductIsNotItsTraffic) {
  ModelConfig c = llama_8b();
  c.activation = kernels::activation::Gate::kGeluTanh;
  c.output_norms = true;  // then no product adds to the residual stream
  EXPECT_DOUBLE_EQ(out_passes(c, 512, 0), 1);
  EXPECT_DOUBLE_EQ(out_passes(c, 512, 56), 1);
}

TEST(StepTraffic, OfEverySliceAndChunk) {
  for (const int sms : {16, 32, 56, 132}) {
    for (const std::int64_t rows : {1, 64, 96, 512, 8192}) {
      EXPECT_GE(out_passes(llama_8b(), rows, sms), 1) << sms << " SMs, " << rows;
    }
  }
}

TEST(StepTraffic, ExpertsAreNotAmongThem) {
  ModelConfig c = llama_8b();
  c.moe =
      MoeConfig{.experts = 128, .experts_per_token = 8, .intermediate = 768, .dense_layers = {}};
  EXPECT_DOUBLE_EQ(out_passes(c, 512, 0), (6144.0 + 2 * 4096) / (6144 + 4096));
}

}  // namespace
}  // namespace causeway::model::step_traffic_test
