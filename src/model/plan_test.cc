#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <set>
#include <string>

#include "model/config.h"

namespace causeway::model::plan_test {
namespace {

ModelConfig tiny() {
  ModelConfig c;
  c.hidden = 64;
  c.intermediate = 172;
  c.layers = 2;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 10;
  c.vocab = 512;
  return c;
}

MoeConfig sparse(std::int64_t experts, std::int64_t intermediate) {
  MoeConfig moe;
  moe.experts = experts;
  moe.experts_per_token = 2;
  moe.intermediate = intermediate;
  return moe;
}

std::int64_t planned_parameters(const weights::LoadPlan& plan) {
  std::int64_t count = 0;
  for (const auto& group : plan.groups) {
    for (const auto& tensor : group.tensors) {
      for (const auto& source : tensor.sources) count += source.rows * source.cols;
    }
  }
  return count;
}

std::string outline(const weights::PlannedGroup& group) {
  std::string out = group.name + ":";
  for (const auto& tensor : group.tensors) {
    std::int64_t rows = 0;
    for (const auto& source : tensor.sources) rows += source.rows;
    out += " " + tensor.name + "[" + std::to_string(rows) + "," +
           std::to_string(tensor.sources[0].cols) + "]";
  }
  return out;
}

TEST(Plan, DenseLayer) {
  const auto plan = plan_weights(tiny(), DType::kF32);
  EXPECT_EQ(plan.dtype, DType::kF32);
  ASSERT_EQ(plan.groups.size(), 4u);
  EXPECT_EQ(outline(plan.groups[0]), "embedding: embedding[512,64]");
  EXPECT_EQ(outline(plan.groups[2]),
            "layers.1: input_norm[1,64] qkv[160,64] o[64,80] post_norm[1,64] gate_up[344,64] "
            "down[64,172]");
  EXPECT_EQ(outline(plan.groups[3]), "head: norm[1,64] lm_head[512,64]");
  const auto& qkv = plan.groups[2].tensors[1];
  EXPECT_EQ(qkv.sources[0].name, "model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(qkv.sources[2].name, "model.layers.1.self_attn.v_proj.weight");
  EXPECT_EQ(plan.groups[2].tensors[4].sources[0].name, "model.layers.1.mlp.gate_proj.weight");
}

TEST(Plan, EverythingASwitchAdds) {
  ModelConfig c = tiny();
  c.attention_bias = c.output_bias = c.mlp_bias = c.qk_norm = c.tied_embeddings = true;
  const auto plan = plan_weights(c, DType::kBF16);
  EXPECT_EQ(outline(plan.groups[1]),
            "layers.0: input_norm[1,64] qkv[160,64] qkv_bias[160,1] q_norm[1,10] k_norm[1,10] "
            "o[64,80] o_bias[64,1] post_norm[1,64] gate_up[344,64] gate_up_bias[344,1] "
            "down[64,172] down_bias[64,1]");
  EXPECT_EQ(outline(plan.groups.back()), "head: norm[1,64]");
}

TEST(Plan, FusedTensorsOfPhi3) {
  ModelConfig c = tiny();
  const std::string split = outline(plan_weights(c, DType::kBF16).groups[1]);
  c.family = Family::kPhi3;
  const auto layer = plan_weights(c, DType::kBF16).groups[1];
  EXPECT_EQ(outline(layer), split);
  EXPECT_EQ(layer.tensors[1].sources.at(0).name, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(layer.tensors[4].sources.at(0).name, "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(layer.tensors[1].sources.size() + layer.tensors[4].sources.size(), 2u);
}

// The rows of the file that a tensor of the pool has, one after the other.
std::vector<std::int64_t> rows_of(const weights::PlannedTensor& tensor) {
  std::vector<std::int64_t> rows;
  for (const auto& source : tensor.sources) {
    for (std::int64_t i = 0; i < source.rows; ++i) rows.push_back(source.first_row + i);
  }
  return rows;
}

TEST(Plan, HeadsThatAreTurnedInPart) {
  ModelConfig c = tiny();
  c.attention_bias = c.qk_norm = true;
  c.rotary_dim = 6;
  const auto layer = plan_weights(c, DType::kBF16).groups[1];
  // Pairs (0, 3), (1, 4), (2, 5) are rotated; 6 to 9 are not.
  const std::vector<std::int64_t> head = {0, 1, 2, 6, 7, 3, 4, 5, 8, 9};
  for (const std::size_t tensor : {1, 2}) {
    const auto rows = rows_of(layer.tensors[tensor]);
    ASSERT_EQ(rows.size(), 160u);
    for (std::size_t i = 0; i < 160; ++i) {
      const std::size_t of_q = i < 80 ? i : i - 80, k_head = of_q / 10 * 10;
      const std::size_t v = i - 120;
      EXPECT_EQ(rows[i], i < 120 ? static_cast<std::int64_t>(k_head) + head[of_q % 10]
                                 : static_cast<std::int64_t>(v));
    }
  }
  EXPECT_EQ(layer.tensors[3].name, "q_norm");
  EXPECT_EQ(rows_of(layer.tensors[3]), head);
  EXPECT_EQ(rows_of(layer.tensors[4]), head);
  c.qk_norm = c.attention_bias = false;
  c.family = Family::kPhi3;
  const auto fused = plan_weights(c, DType::kBF16).groups[1].tensors[1];
  const auto rows = rows_of(fused);
  for (std::size_t i = 0; i < 160; ++i) {
    EXPECT_EQ(rows[i], i < 120 ? static_cast<std::int64_t>(i / 10 * 10) + head[i % 10]
                               : static_cast<std::int64_t>(i));
  }
  for (const auto& source : fused.sources) EXPECT_EQ(source.rows_of_tensor(), 160);
}

TEST(Plan, NormsBehindSublayers) {
  ModelConfig c = tiny();
  c.family = Family::kGemma2;
  c.output_norms = true;
  const auto layer = plan_weights(c, DType::kBF16).groups[1];
  EXPECT_EQ(outline(layer),
            "layers.0: input_norm[1,64] qkv[160,64] o[64,80] attention_norm[1,64] post_norm[1,64] "
            "gate_up[344,64] down[64,172] mlp_norm[1,64]");
  EXPECT_EQ(layer.tensors[3].sources[0].name, "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(layer.tensors[4].sources[0].name, "model.layers.0.pre_feedforward_layernorm.weight");
  EXPECT_EQ(layer.tensors[7].sources[0].name, "model.layers.0.post_feedforward_layernorm.weight");
}

TEST(Plan, BiasesOfQwen2) {
  ModelConfig c = tiny();
  c.family = Family::kQwen2;
  c.attention_bias = true;
  EXPECT_EQ(outline(plan_weights(c, DType::kBF16).groups[1]),
            "layers.0: input_norm[1,64] qkv[160,64] qkv_bias[160,1] o[64,80] post_norm[1,64] "
            "gate_up[344,64] down[64,172]");
}

TEST(Plan, NamesOfQwen) {
  ModelConfig c = tiny();
  c.family = Family::kQwen;
  c.attention_bias = c.output_bias = c.mlp_bias = true;
  const auto plan = plan_weights(c, DType::kBF16);
  std::vector<std::string> names;
  for (const auto& tensor : plan.groups[2].tensors) {
    for (const auto& source : tensor.sources) names.push_back(source.name);
  }
  // The MLP is c_proj(w1(x) * silu(w2(x))): w2 is the gate.
  const std::string layer = "transformer.h.1.";
  EXPECT_EQ(names,
            (std::vector<std::string>{
                layer + "ln_1.weight", layer + "attn.c_attn.weight", layer + "attn.c_attn.bias",
                layer + "attn.c_proj.weight", layer + "attn.c_proj.bias", layer + "ln_2.weight",
                layer + "mlp.w2.weight", layer + "mlp.w1.weight", layer + "mlp.w2.bias",
                layer + "mlp.w1.bias", layer + "mlp.c_proj.weight", layer + "mlp.c_proj.bias"}));
  EXPECT_EQ(plan.groups[0].tensors[0].sources[0].name, "transformer.wte.weight");
  EXPECT_EQ(plan.groups[3].tensors[0].sources[0].name, "transformer.ln_f.weight");
  EXPECT_EQ(plan.groups[3].tensors[1].sources[0].name, "lm_head.weight");
  c.rotary_dim = 4;  // weights and biases of a fused tensor are put alike
  const auto turned = plan_weights(c, DType::kBF16).groups[1];
  EXPECT_EQ(rows_of(turned.tensors[1]), rows_of(turned.tensors[2]));
  EXPECT_EQ(turned.tensors[2].sources[0].name, "transformer.h.0.attn.c_attn.bias");
  EXPECT_EQ(turned.tensors[2].sources[0].rows_of_tensor(), 160);
}

TEST(Plan, SparseLayer) {
  ModelConfig c = tiny();
  c.family = Family::kQwen3Moe;
  c.moe = sparse(3, 20);
  c.moe->dense_layers = {0};
  const auto plan = plan_weights(c, DType::kBF16);
  EXPECT_EQ(outline(plan.groups[2]),
            "layers.1: input_norm[1,64] qkv[160,64] o[64,80] post_norm[1,64] router[3,64] "
            "experts_gate_up[120,64] experts_down[192,20]");
  const auto& experts = plan.groups[2].tensors[5].sources;
  EXPECT_EQ(experts[2].name, "model.layers.1.mlp.experts.1.gate_proj.weight");
  EXPECT_EQ(experts[3].name, "model.layers.1.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(plan.groups[2].tensors[4].sources[0].name, "model.layers.1.mlp.gate.weight");
  EXPECT_EQ(plan.groups[1].tensors.back().name, "down");
}

TEST(Plan, SparseLayerOfMixtral) {
  ModelConfig c = tiny();
  c.family = Family::kMixtral;
  c.moe = sparse(3, 20);
  const auto plan = plan_weights(c, DType::kBF16);
  EXPECT_EQ(outline(plan.groups[1]),
            "layers.0: input_norm[1,64] qkv[160,64] o[64,80] post_norm[1,64] router[3,64] "
            "experts_gate_up[120,64] experts_down[192,20]");
  const auto& tensors = plan.groups[1].tensors;
  EXPECT_EQ(tensors[4].sources[0].name, "model.layers.0.block_sparse_moe.gate.weight");
  EXPECT_EQ(tensors[5].sources[2].name, "model.layers.0.block_sparse_moe.experts.1.w1.weight");
  EXPECT_EQ(tensors[5].sources[3].name, "model.layers.0.block_sparse_moe.experts.1.w3.weight");
  EXPECT_EQ(tensors[6].sources[1].name, "model.layers.0.block_sparse_moe.experts.1.w2.weight");
}

TEST(Plan, KvShape) {
  const auto shape = kv_shape(tiny(), DType::kF32);
  EXPECT_EQ(shape.layers, 2);
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.head_dim, 10);
  EXPECT_EQ(shape.dtype, DType::kF32);
}

RC_GTEST_PROP(Plan, CountsEachParameterOnce, ()) {
  ModelConfig c = tiny();
  c.hidden = *rc::gen::inRange<std::int64_t>(1, 100);
  c.layers = *rc::gen::inRange<std::int64_t>(1, 6);
  c.kv_heads = *rc::gen::inRange<std::int64_t>(1, 5);
  c.heads = c.kv_heads * *rc::gen::inRange<std::int64_t>(1, 9);
  c.attention_bias = *rc::gen::arbitrary<bool>();
  c.output_bias = *rc::gen::arbitrary<bool>();
  c.mlp_bias = *rc::gen::arbitrary<bool>();
  c.qk_norm = *rc::gen::arbitrary<bool>();
  c.tied_embeddings = *rc::gen::arbitrary<bool>();
  c.output_norms = *rc::gen::arbitrary<bool>();
  c.rotary_dim = 2 * *rc::gen::inRange<std::int64_t>(0, 6);
  if (*rc::gen::arbitrary<bool>()) {
    c.family = *rc::gen::element(Family::kMixtral, Family::kQwen3Moe);
    c.moe = sparse(*rc::gen::inRange<std::int64_t>(1, 9), 7);
    c.moe->sparse_step = *rc::gen::inRange<std::int64_t>(1, 4);
  }
  const auto plan = plan_weights(c, DType::kBF16);
  RC_ASSERT(planned_parameters(plan) == parameter_count(c));
  for (const auto& group : plan.groups) {
    std::set<std::string> names;
    for (const auto& tensor : group.tensors) {
      RC_ASSERT(names.insert(tensor.name).second);
      for (const auto& source : tensor.sources) RC_ASSERT(source.cols == tensor.sources[0].cols);
    }
  }
}

}  // namespace
}  // namespace causeway::model::plan_test
