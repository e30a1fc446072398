#include "model/families.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace causeway::model {
namespace {

using kernels::activation::Gate;

constexpr ExpertNames kMixtralExperts = {.block = "block_sparse_moe.",
                                         .gate = "w1",
                                         .up = "w3",
                                         .down = "w2",
                                         .count = "num_local_experts",
                                         .intermediate = "intermediate_size"};
constexpr ExpertNames kQwenExperts = {.block = "mlp.",
                                      .gate = "gate_proj",
                                      .up = "up_proj",
                                      .down = "down_proj",
                                      .count = "num_experts",
                                      .intermediate = "moe_intermediate_size"};

constexpr TensorNames kQwenNames = {.embedding = "transformer.wte",
                                    .layers = "transformer.h.",
                                    .norm = "transformer.ln_f",
                                    .input_norm = "ln_1",
                                    .post_norm = "ln_2",
                                    .qkv = "attn.c_attn",
                                    .o = "attn.c_proj",
                                    .gate = "mlp.w2",
                                    .up = "mlp.w1",
                                    .down = "mlp.c_proj"};
// Behind today's names those of its first files.
constexpr FieldName kQwenFields[] = {{"hidden_size", "hidden_size"},
                                     {"hidden_size", "n_embd"},
                                     {"num_hidden_layers", "num_hidden_layers"},
                                     {"num_hidden_layers", "n_layer"},
                                     {"num_attention_heads", "num_attention_heads"},
                                     {"num_attention_heads", "n_head"},
                                     {"intermediate_size", "intermediate_size"},
                                     {"intermediate_size", "ffn_hidden_size"},
                                     {"max_position_embeddings", "max_position_embeddings"},
                                     {"max_position_embeddings", "n_positions"},
                                     {"head_dim", "kv_channels"},
                                     {"rms_norm_eps", "layer_norm_epsilon"},
                                     {"rope_theta", "rotary_emb_base"},
                                     {"partial_rotary_factor", "rotary_pct"}};

constexpr FamilyTraits kGemma3Text = {.family = Family::kGemma3Text,
                                      .architecture = "Gemma3ForCausalLM",
                                      .model_type = "gemma3_text",
                                      .head_dim = 256,
                                      .max_position = 131072,
                                      .rope_theta = 1e6,
                                      .adds_bos = true,
                                      .qk_norm = true,
                                      .windows = true,
                                      .window = 4096,
                                      .window_pattern = 6,
                                      .local_rope_theta = 10000,
                                      .gemma_norms = true,
                                      .activation_name = "hidden_activation",
                                      .activation = Gate::kGeluTanh,
                                      .tied = true};

// Gemma 3 with its eyes: the text model of it.
constexpr FamilyTraits with_eyes(FamilyTraits text) {
  text.family = Family::kGemma3;
  text.architecture = "Gemma3ForConditionalGeneration";
  text.model_type = "gemma3";
  text.nested = "text_config";
  text.prefix = "language_model.";
  text.heads = 8;
  text.kv_heads = 4;
  text.vocab = 262208;
  return text;
}
constexpr FamilyTraits kGemma3 = with_eyes(kGemma3Text);

// In the order of Family.
constexpr std::array kFamilies = {FamilyTraits{.family = Family::kGemma2,
                                               .architecture = "Gemma2ForCausalLM",
                                               .model_type = "gemma2",
                                               .head_dim = 256,
                                               .max_position = 8192,
                                               .adds_bos = true,
                                               .windows = true,
                                               .window = 4096,
                                               .window_pattern = 2,
                                               .gemma_norms = true,
                                               .attention_cap = 50,
                                               .logit_cap = 30,
                                               .activation_name = "hidden_activation",
                                               .activation = Gate::kGeluTanh,
                                               .tied = true},
                                  kGemma3,
                                  kGemma3Text,
                                  FamilyTraits{.family = Family::kLlama,
                                               .architecture = "LlamaForCausalLM",
                                               .model_type = "llama",
                                               .max_position = 2048,
                                               .adds_bos = true,
                                               .mlp_biases = true},
                                  FamilyTraits{.family = Family::kMistral,
                                               .architecture = "MistralForCausalLM",
                                               .model_type = "mistral",
                                               .max_position = 131072,
                                               .adds_bos = true,
                                               .attention_biases = AttentionBiases::kNone,
                                               .windows = true,
                                               .window = 4096},
                                  FamilyTraits{.family = Family::kMixtral,
                                               .architecture = "MixtralForCausalLM",
                                               .model_type = "mixtral",
                                               .max_position = 131072,
                                               .norm_epsilon = 1e-5,
                                               .rope_theta = 1e6,
                                               .adds_bos = true,
                                               .attention_biases = AttentionBiases::kNone,
                                               .windows = true,
                                               .experts = kMixtralExperts,
                                               .experts_only = true},
                                  FamilyTraits{.family = Family::kPhi3,
                                               .architecture = "Phi3ForCausalLM",
                                               .model_type = "phi3",
                                               .max_position = 4096,
                                               .norm_epsilon = 1e-5,
                                               .attention_biases = AttentionBiases::kNone,
                                               .windows = true,
                                               .fused_qkv = true,
                                               .fused_gate_up = true},
                                  FamilyTraits{.family = Family::kQwen,
                                               .architecture = "QWenLMHeadModel",
                                               .model_type = "qwen",
                                               .head_dim = 128,
                                               .max_position = 8192,
                                               .attention_biases = AttentionBiases::kQkv,
                                               .fused_qkv = true,
                                               .names = kQwenNames,
                                               .field_names = kQwenFields,
                                               .counts_gate_and_up = true,
                                               .no_bias = true,
                                               .logn = true,
                                               .dtype = "bfloat16"},
                                  FamilyTraits{.family = Family::kQwen2,
                                               .architecture = "Qwen2ForCausalLM",
                                               .model_type = "qwen2",
                                               .attention_biases = AttentionBiases::kQkv},
                                  FamilyTraits{.family = Family::kQwen3,
                                               .architecture = "Qwen3ForCausalLM",
                                               .model_type = "qwen3",
                                               .head_dim = 128,
                                               .qk_norm = true},
                                  FamilyTraits{.family = Family::kQwen3Moe,
                                               .architecture = "Qwen3MoeForCausalLM",
                                               .model_type = "qwen3_moe",
                                               .qk_norm = true,
                                               .experts = kQwenExperts}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    if (static_cast<std::size_t>(kFamilies[i].family) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const FamilyTraits> families() { return kFamilies; }

const FamilyTraits& traits_of(Family family) {
  const auto index = static_cast<std::size_t>(family);
  CAUSEWAY_CHECK(index < kFamilies.size(), "a family without a row");
  return kFamilies[index];
}

const FamilyTraits* find_architecture(std::string_view architecture) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const auto& f) { return f.architecture == architecture; });
  return found == kFamilies.end() ? nullptr : &*found;
}

}  // namespace causeway::model
