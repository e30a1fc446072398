// What sets a family of models apart beside what its config.json says: a row of a table each.
// docs/design/families.md says how one is added.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/activation/activation.h"

namespace causeway::model {

enum class Family {
  kGemma2,
  kGemma3,
  kGemma3Text,
  kLlama,
  kMistral,
  kMixtral,
  kPhi3,
  kQwen,
  kQwen2,
  kQwen3,
  kQwen3Moe
};

// The checkpoint's names of a sparse layer, and what config.json calls its sizes.
struct ExpertNames {
  std::string_view block;  // the part of a layer's names between "model.layers.<i>." and "gate."
  std::string_view gate, up, down;
  const char* count;         // of experts
  const char* intermediate;  // of one expert
};

// How the checkpoint calls a tensor, without ".weight" or ".bias". Those of a layer stand behind
// `layers`, its number and a dot; `qkv` and `gate_up` where they are one tensor.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view layers = "model.layers.";
  std::string_view norm = "model.norm";  // the last
  std::string_view input_norm = "input_layernorm";
  std::string_view post_norm = "post_attention_layernorm";
  std::string_view attention = "self_attn.";  // in front of q_proj, k_proj, v_proj, q_norm, k_norm
  std::string_view qkv = "self_attn.qkv_proj";
  std::string_view o = "self_attn.o_proj";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view gate_up = "mlp.gate_up_proj";
  std::string_view down = "mlp.down_proj";
};

// A field of config.json under the name that most families have for it, and under this one's. Of
// several the first that is there counts.
struct FieldName {
  std::string_view common;
  const char* own;
};

enum class AttentionBiases : std::uint8_t {
  kNone,
  kConfigured,  // q, k, v and o have them if "attention_bias" says so
  kQkv,         // q, k and v have them
};

struct FamilyTraits {
  Family family = Family::kLlama;
  std::string_view architecture;  // "architectures"[0]
  std::string_view model_type;    // also its name on the command line
  // A text model among others: the object of config.json that holds its configuration, beside which
  // the rest counts where it says nothing; and how the names of its weights begin.
  const char* nested = nullptr;
  std::string_view prefix = "";
  // What config.json may leave out. head_dim 0: hidden / heads; others 0: nothing.
  std::int64_t heads = 0, kv_heads = 0, vocab = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position = 32768;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  bool adds_bos = false;  // of a generated tokenizer: a text begins with <|begin_of_text|>
  bool qk_norm = false;   // RMS norm of each head of q and k before RoPE
  AttentionBiases attention_biases = AttentionBiases::kConfigured;
  bool mlp_biases = false;  // "mlp_bias" may ask for them
  // "sliding_window" is attention's window where it is a number, and where it is left out `window`
  // (0: none). Else "use_sliding_window" would ask for one in some layers.
  bool windows = false;
  std::int64_t window = 0;
  // Not 0: every so many-th layer has no window, unless "layer_types" or "sliding_window_pattern"
  // says otherwise; all others have it.
  std::int64_t window_pattern = 0;
  // Not 0: RoPE of layers with a window has the base "rope_local_base_freq", by default this one,
  // and is not scaled.
  double local_rope_theta = 0;
  // The checkpoint has one tensor for q, k and v; and one for gate and up.
  bool fused_qkv = false, fused_gate_up = false;
  TensorNames names = {};
  std::span<const FieldName> field_names = {};  // those that differ
  // "intermediate_size" counts gate and up together, and all products but the head have biases
  // where "no_bias" is false.
  bool counts_gate_and_up = false, no_bias = false;
  // "seq_length" is the context of training. What it means beyond: "use_logn_attn",
  // "use_dynamic_ntk".
  bool logn = false;
  // Norms multiply by 1 + weight, what attention and the MLP give is normalised before it is added,
  // embeddings are multiplied by the root of their width, scores divided by that of
  // "query_pre_attn_scalar".
  bool gemma_norms = false;
  // Soft caps of attention's scores and of logits where config.json leaves them out; 0: none.
  double attention_cap = 0, logit_cap = 0;
  // The MLP's activation, by which name config.json has it and where it is left out.
  const char* activation_name = "hidden_act";
  kernels::activation::Gate activation = kernels::activation::Gate::kSilu;
  const char* dtype = "float32";  // "torch_dtype"
  bool tied = false;              // the head is the embedding unless config.json says otherwise
  // Layers of experts; nothing: there are none.
  std::optional<ExpertNames> experts = {};
  // Every layer is sparse and the chosen experts' weights sum to 1, whatever config.json says.
  bool experts_only = false;
};

std::span<const FamilyTraits> families();
const FamilyTraits& traits_of(Family family);
// Null: an architecture that is not served.
const FamilyTraits* find_architecture(std::string_view architecture);

}  // namespace causeway::model
