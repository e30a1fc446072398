// The differences between families of models beyond what config.json says: a row of a table for
// each family. docs/design/families.md says how to add one.
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

// The checkpoint's names for a sparse layer, and the names of its sizes in config.json.
struct ExpertNames {
  std::string_view block;  // the part of a layer's names between "model.layers.<i>." and "gate."
  std::string_view gate, up, down;
  const char* count;         // of experts
  const char* intermediate;  // of one expert
};

// The checkpoint's names of tensors, without ".weight" or ".bias". Tensors of a layer have the
// prefix `layers`, the layer's number and a dot. `qkv` and `gate_up` are for checkpoints with one
// tensor for these.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view layers = "model.layers.";
  std::string_view norm = "model.norm";  // the norm before the head
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

// A field of config.json: the name that most families use for it, and this family's name. If a
// field has several such names, the first that is present counts.
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
  // For a text model inside another one: the object of config.json with its configuration (fields
  // that are missing there are read outside of it), and the prefix of its weights' names.
  const char* nested = nullptr;
  std::string_view prefix = "";
  // Defaults of fields that config.json may leave out. head_dim 0: hidden / heads; others 0: there
  // is no default.
  std::int64_t heads = 0, kv_heads = 0, vocab = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position = 32768;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  bool adds_bos = false;  // a generated tokenizer begins texts with <|begin_of_text|>
  bool qk_norm = false;   // RMS norm of each head of q and k before RoPE
  AttentionBiases attention_biases = AttentionBiases::kConfigured;
  bool mlp_biases = false;  // "mlp_bias" may ask for them
  // True: "sliding_window", if it is a number, is attention's window; when it is missing, `window`
  // is (0: none). False: "use_sliding_window" would ask for a window in some layers.
  bool windows = false;
  std::int64_t window = 0;
  // Not 0: every so many-th layer has no window, and all others have, unless "layer_types" or
  // "sliding_window_pattern" says otherwise.
  std::int64_t window_pattern = 0;
  // Not 0: in layers with a window RoPE is not scaled, and its base is "rope_local_base_freq", with
  // this default.
  double local_rope_theta = 0;
  // The checkpoint has one tensor for q, k and v; and one tensor for gate and up.
  bool fused_qkv = false, fused_gate_up = false;
  TensorNames names = {};
  std::span<const FieldName> field_names = {};  // the fields with other names
  // "intermediate_size" is the sum of gate and up; and all products but the head have biases if
  // "no_bias" is false.
  bool counts_gate_and_up = false, no_bias = false;
  // "seq_length" is the context of training, and "use_logn_attn" and "use_dynamic_ntk" say what
  // happens beyond it.
  bool logn = false;
  // As Gemma: norms multiply by 1 + weight; the outputs of attention and the MLP are normalised
  // before they are added; embeddings are multiplied by the root of their width; scores are divided
  // by the root of "query_pre_attn_scalar".
  bool gemma_norms = false;
  // Defaults of the soft caps of attention's scores and of logits; 0: none.
  double attention_cap = 0, logit_cap = 0;
  // The MLP's activation: the name of its field in config.json, and the default.
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
