// A model's config.json, read into what the forward pass, the load plan and the KV layout need. One
// description serves all families: what a family has or lacks is data here, not a subclass.
#pragma once

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "kernels/activation/activation.h"
#include "kv/block_layout.h"
#include "model/families.h"
#include "model/rope_scaling.h"
#include "weights/load_plan.h"

namespace causeway::model {

struct MoeConfig {
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate = 0;           // of one expert
  bool normalise_top_k = true;             // routing weights of the chosen sum to 1
  std::int64_t sparse_step = 1;            // every sparse_step-th layer is sparse …
  std::vector<std::int64_t> dense_layers;  // … except these ("mlp_only_layers")
};

inline constexpr std::int64_t kNoWindow = std::numeric_limits<std::int64_t>::max();

struct ModelConfig {
  Family family = Family::kLlama;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  Tokens max_position{0};
  // A token sees itself and so many less one in front of it, in layers that are not global. Smaller
  // than max_position, or kNoWindow.
  std::int64_t sliding_window = kNoWindow;
  // Not 0: logn attention. A query at position p beyond it (p ≥ logn_context) is multiplied by
  // log(p + 1) / log(logn_context).
  std::int64_t logn_context = 0;
  // Not 0: the longest prompt; what is generated behind it may go on to max_position.
  Tokens max_prompt{0};
  // By layer, again and again: attention has no window. Empty: all are alike.
  std::vector<bool> global_layers = {};
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  // The base of layers that are not global, whose RoPE is not scaled; nothing: all are alike.
  std::optional<double> local_rope_theta = {};
  std::int64_t rotary_dim = 0;  // RoPE rotates so many elements of a head, the first; 0: all
  bool tied_embeddings = false;
  bool qk_norm = false;         // RMS norm of each head of q and k before RoPE
  bool attention_bias = false;  // q, k and v have biases
  bool output_bias = false;     // o has one
  bool mlp_bias = false;        // gate, up and down have biases
  bool norm_offset = false;     // norms, those of heads too, multiply by 1 + weight
  bool output_norms = false;  // RMS norms of what attention and the MLP add to the residual stream
  bool scaled_embedding = false;                                            // embedding_scale()
  kernels::activation::Gate activation = kernels::activation::Gate::kSilu;  // of dense MLPs
  double query_scalar = 0;   // scores are divided by its root; 0: head_dim
  double attention_cap = 0;  // scores s become cap · tanh(s / cap); 0: they do not
  double logit_cap = 0;      // likewise logits
  std::optional<MoeConfig> moe;
  DType dtype = DType::kBF16;  // of the checkpoint ("torch_dtype")
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;

  bool is_sparse(std::int64_t layer) const;  // this layer's MLP is a mixture of experts
  bool is_local(std::int64_t layer) const {
    return !global_layers.empty() &&
           !global_layers[static_cast<std::size_t>(layer) % global_layers.size()];
  }
  bool has_window(std::int64_t layer) const {
    return sliding_window != kNoWindow && (global_layers.empty() || is_local(layer));
  }
  std::int64_t window_of(std::int64_t layer) const {
    return has_window(layer) ? sliding_window : kNoWindow;
  }
  // Sequences of at most so many tokens are computed as if there were neither a window nor logn
  // attention.
  std::int64_t plain_context() const {
    return logn_context > 0 ? std::min(sliding_window, logn_context) : sliding_window;
  }
  // By which the query at a position is multiplied.
  float query_factor(std::int64_t position) const;
  // By which embeddings are multiplied: 1, or the root of `hidden`, rounded to `dtype`.
  float embedding_scale() const;
  bool partly_rotated() const { return rotary_dim > 0 && rotary_dim < head_dim; }
  std::int64_t rotated_dim() const { return partly_rotated() ? rotary_dim : head_dim; }
};

// Parses config.json. Every dimension is checked: positive, bounded, products without overflow,
// heads divisible by kv_heads. kUnsupported names an architecture, activation or RoPE type that is
// not served; kCorrupt names the field.
Result<ModelConfig> parse_config(std::string_view json);
// config.json of a model directory; the EOS tokens of generation_config.json, if there, are added.
Result<ModelConfig> load_config(const std::filesystem::path& directory);

// The config.json of a config: parse_config() gives it back.
std::string config_json(const ModelConfig& config);

// The type that weights are held and computed in on the CPU: F16 becomes F32, which is exact.
DType host_dtype(DType checkpoint);

// The names that plan_weights() gives, and that the forward pass asks for:
//   group "embedding": "embedding" [vocab, hidden]
//   group "layers.<i>": "input_norm" [1, hidden], "qkv" [(heads + 2 kv_heads) × head_dim, hidden],
//     "qkv_bias", "q_norm", "k_norm" [1, head_dim], "o" [hidden, heads × head_dim], "o_bias",
//     "attention_norm" (with output_norms), "post_norm", "mlp_norm" (likewise) [1, hidden];
//     dense: "gate_up" [2 × intermediate, hidden], "gate_up_bias",
//     "down" [hidden, intermediate], "down_bias"; sparse: "router" [experts, hidden],
//     "experts_gate_up" [experts × 2 × moe.intermediate, hidden] (expert by expert, gate then up),
//     "experts_down" [experts × hidden, moe.intermediate] (expert by expert)
//   group "head": "norm" [1, hidden], "lm_head" [vocab, hidden] (absent when tied)
// Where RoPE rotates a part of each head, rows of a head of q and k lie in another order than in
// the checkpoint: what is rotated together half a head apart. Biases are columns [n, 1]. Absent
// where the config says so. Everything, norms too, is stored as `storage`.
weights::LoadPlan plan_weights(const ModelConfig& config, DType storage);

kv::KvShape kv_shape(const ModelConfig& config, DType kv_dtype);

std::int64_t parameter_count(const ModelConfig& config);

}  // namespace causeway::model
