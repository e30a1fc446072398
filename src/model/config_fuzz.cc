// Any bytes as a config.json, and those of every family with changes. What is accepted has
// dimensions that later code may multiply, a load plan, and a config.json of its own that means the
// same.
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "model/config.h"
#include "model/families.h"
#include "model/random_model.h"

namespace causeway::model {
namespace {

constexpr std::string_view kWords[] = {"architectures",
                                       "attention_bias",
                                       "attention_factor",
                                       "attn_logit_softcapping",
                                       "beta_fast",
                                       "beta_slow",
                                       "bfloat16",
                                       "decoder_sparse_step",
                                       "default",
                                       "dtype",
                                       "eos_token_id",
                                       "factor",
                                       "ffn_hidden_size",
                                       "final_logit_softcapping",
                                       "float16",
                                       "full_attention",
                                       "gelu_pytorch_tanh",
                                       "head_dim",
                                       "high_freq_factor",
                                       "hidden_act",
                                       "intermediate_size",
                                       "kv_channels",
                                       "layer_types",
                                       "linear",
                                       "llama3",
                                       "long_factor",
                                       "longrope",
                                       "low_freq_factor",
                                       "max_position_embeddings",
                                       "mlp_bias",
                                       "mlp_only_layers",
                                       "mscale",
                                       "mscale_all_dim",
                                       "no_bias",
                                       "num_experts",
                                       "num_local_experts",
                                       "original_max_position_embeddings",
                                       "partial_rotary_factor",
                                       "quantization_config",
                                       "query_pre_attn_scalar",
                                       "rope_local_base_freq",
                                       "rope_parameters",
                                       "rope_scaling",
                                       "rope_theta",
                                       "rope_type",
                                       "rotary_emb_base",
                                       "rotary_pct",
                                       "seq_length",
                                       "short_factor",
                                       "sliding_attention",
                                       "sliding_window",
                                       "sliding_window_pattern",
                                       "su",
                                       "text_config",
                                       "tie_word_embeddings",
                                       "torch_dtype",
                                       "truncate",
                                       "use_dynamic_ntk",
                                       "use_logn_attn",
                                       "use_sliding_window",
                                       "vocab_size",
                                       "yarn",
                                       "MistralForCausalLM",
                                       "Qwen3MoeForCausalLM",
                                       "Phi3ForCausalLM"};

RopeScaling scaling_of(RopeType type, const ModelConfig& config) {
  RopeScaling scaling{.type = type};
  scaling.factor = 4;
  scaling.original_max_position = config.max_position.count / 4;
  const auto pairs = static_cast<std::size_t>(config.rotated_dim() / 2);
  if (type == RopeType::kLongRope) {
    scaling.short_factor.assign(pairs, 1.0);
    scaling.long_factor.assign(pairs, 2.0);
  }
  return scaling;
}

// A file of each family, and one of each way to stretch a context.
std::vector<std::string> files() {
  std::vector<std::string> all;
  for (const FamilyTraits& traits : families()) {
    all.push_back(config_json(random_model_config(traits.family)));
  }
  for (const RopeType type :
       {RopeType::kLinear, RopeType::kLlama3, RopeType::kYarn, RopeType::kLongRope}) {
    ModelConfig config = random_model_config(Family::kLlama);
    config.rope_scaling = scaling_of(type, config);
    all.push_back(config_json(config));
  }
  return all;
}

void check(const ModelConfig& config) {
  CAUSEWAY_CHECK(config.hidden > 0 && config.layers > 0 && config.vocab > 0);
  CAUSEWAY_CHECK(config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads == 0);
  CAUSEWAY_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0);
  CAUSEWAY_CHECK(config.rotated_dim() > 0 && config.rotated_dim() <= config.head_dim);
  CAUSEWAY_CHECK(config.max_position > Tokens(0) && config.sliding_window > 0);
  CAUSEWAY_CHECK(parameter_count(config) > 0);
  if (config.bos) CAUSEWAY_CHECK(*config.bos >= 0 && *config.bos < config.vocab);
  for (const TokenId id : config.eos) CAUSEWAY_CHECK(id >= 0 && id < config.vocab);
  for (std::int64_t layer = 0; layer < std::min<std::int64_t>(config.layers, 64); ++layer) {
    CAUSEWAY_CHECK(config.window_of(layer) > 0);
    CAUSEWAY_CHECK(config.is_sparse(layer) || config.intermediate > 0);
  }
  CAUSEWAY_CHECK(kv_shape(config, DType::kBF16).layers == config.layers);
}

// A plan lists every tensor: of thousands of layers and experts that takes its time.
void plan(const ModelConfig& config) {
  const std::int64_t experts = config.moe ? config.moe->experts : 1;
  if (config.layers * experts > 2000) return;
  const weights::LoadPlan plan = plan_weights(config, config.dtype);
  CAUSEWAY_CHECK(!plan.groups.empty());
}

}  // namespace
}  // namespace causeway::model

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::model;  // NOLINT: the fuzzer's entry must be global
  static const std::vector<std::string> kFiles = files();
  const auto file =
      causeway::testing::edited_file({kFiles, kWords}, {reinterpret_cast<const char*>(data), size});
  const auto config = parse_config(file.text);
  if (!config.ok()) {
    CAUSEWAY_CHECK(!file.whole, config.error().message);
    CAUSEWAY_CHECK(!config.error().message.empty() && config.error().message.size() < 2000);
    return 0;
  }
  check(*config);
  plan(*config);
  const std::string written = config_json(*config);
  const auto again = parse_config(written);
  CAUSEWAY_CHECK(again.ok(), "what was accepted is not accepted again");
  CAUSEWAY_CHECK(config_json(*again) == written, "what was accepted is something else");
  return 0;
}
