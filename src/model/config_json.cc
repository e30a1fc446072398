// The other way of parse_config(): what a ModelConfig says, as the config.json of its family.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "model/config.h"

namespace causeway::model {
namespace {

using nlohmann::ordered_json;

const char* torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "float32";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
  }
  return "";
}

void add_moe(const MoeConfig& moe, const FamilyTraits& traits, ordered_json& root) {
  root[traits.experts->count] = moe.experts;
  root["num_experts_per_tok"] = moe.experts_per_token;
  root[traits.experts->intermediate] = moe.intermediate;
  if (traits.experts_only) return;
  root["norm_topk_prob"] = moe.normalise_top_k;
  root["decoder_sparse_step"] = moe.sparse_step;
  root["mlp_only_layers"] = moe.dense_layers;
}

// A factor from which parse_config() makes rotary_dim again, by rounding down.
double rotary_factor(const ModelConfig& config) {
  const auto size = static_cast<double>(config.head_dim);
  const double factor = static_cast<double>(config.rotary_dim) / size;
  const bool same = static_cast<std::int64_t>(size * factor) == config.rotary_dim;
  return same ? factor : std::nextafter(factor, 1.0);
}

ordered_json rope_json(const RopeScaling& scaling) {
  ordered_json out = {{"rope_type", name_of(scaling.type)},
                      {"factor", scaling.factor},
                      {"original_max_position_embeddings", scaling.original_max_position}};
  if (scaling.attention_factor) out["attention_factor"] = *scaling.attention_factor;
  switch (scaling.type) {
    case RopeType::kLinear: break;
    case RopeType::kLlama3:
      out["low_freq_factor"] = scaling.low_freq_factor;
      out["high_freq_factor"] = scaling.high_freq_factor;
      break;
    case RopeType::kYarn:
      out["beta_fast"] = scaling.beta_fast;
      out["beta_slow"] = scaling.beta_slow;
      out["truncate"] = scaling.whole;
      break;
    case RopeType::kLongRope:
      out["short_factor"] = scaling.short_factor;
      out["long_factor"] = scaling.long_factor;
      break;
  }
  return out;
}

// As an integer where it is one: transformers refuses 256.0 where it wants an int.
ordered_json whole_or_real(double value) {
  const bool whole = std::trunc(value) == value && std::abs(value) < 1e15;
  return whole ? ordered_json(static_cast<std::int64_t>(value)) : ordered_json(value);
}

void add_gemma(const ModelConfig& config, ordered_json& root) {
  const auto cap = [](double value) { return value > 0 ? ordered_json(value) : ordered_json(); };
  root["query_pre_attn_scalar"] = whole_or_real(
      config.query_scalar > 0 ? config.query_scalar : static_cast<double>(config.head_dim));
  root["attn_logit_softcapping"] = cap(config.attention_cap);
  root["final_logit_softcapping"] = cap(config.logit_cap);
  if (config.local_rope_theta) root["rope_local_base_freq"] = *config.local_rope_theta;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    root["layer_types"].push_back(config.is_local(i) ? "sliding_attention" : "full_attention");
  }
}

void add_logn(const ModelConfig& config, ordered_json& root) {
  const std::int64_t longest = config.max_position.count;
  const bool logn = config.logn_context > 0 && config.logn_context < longest;
  const bool dynamic = config.max_prompt > Tokens(0) && config.max_prompt < config.max_position;
  root["seq_length"] = logn ? config.logn_context : dynamic ? config.max_prompt.count : longest;
  root["use_logn_attn"] = logn;
  root["use_dynamic_ntk"] = dynamic;
}

// Members under the family's own names.
ordered_json renamed(const ordered_json& root, const FamilyTraits& traits) {
  ordered_json out;
  for (const auto& [name, value] : root.items()) {
    const auto own = std::find_if(traits.field_names.begin(), traits.field_names.end(),
                                  [&](const FieldName& field) { return field.common == name; });
    out[own == traits.field_names.end() ? name : own->own] = value;
  }
  return out;
}

}  // namespace

std::string config_json(const ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  ordered_json root;
  root["architectures"] = {traits.architecture};
  root["model_type"] = traits.model_type;
  root["hidden_size"] = config.hidden;
  const std::int64_t times = traits.counts_gate_and_up ? 2 : 1;
  if (config.intermediate > 0) root["intermediate_size"] = times * config.intermediate;
  root["num_hidden_layers"] = config.layers;
  root["num_attention_heads"] = config.heads;
  root["num_key_value_heads"] = config.kv_heads;
  root["head_dim"] = config.head_dim;
  root["vocab_size"] = config.vocab;
  root["max_position_embeddings"] = config.max_position.count;
  root[traits.activation_name] =
      config.activation == kernels::activation::Gate::kSilu ? "silu" : "gelu_pytorch_tanh";
  root["rms_norm_eps"] = config.norm_epsilon;
  root["rope_theta"] = config.rope_theta;
  root["rope_scaling"] = config.rope_scaling ? rope_json(*config.rope_scaling) : ordered_json();
  if (config.partly_rotated()) root["partial_rotary_factor"] = rotary_factor(config);
  if (traits.attention_biases == AttentionBiases::kConfigured) {
    root["attention_bias"] = config.attention_bias;
  }
  if (traits.mlp_biases) root["mlp_bias"] = config.mlp_bias;
  if (traits.no_bias) root["no_bias"] = !config.output_bias;
  if (traits.logn) add_logn(config, root);
  if (traits.windows) {
    root["sliding_window"] = nullptr;
    if (config.sliding_window != kNoWindow) root["sliding_window"] = config.sliding_window;
  }
  if (traits.gemma_norms) add_gemma(config, root);
  root["tie_word_embeddings"] = config.tied_embeddings;
  if (config.moe && traits.experts) add_moe(*config.moe, traits, root);
  root["bos_token_id"] = nullptr;
  if (config.bos) root["bos_token_id"] = *config.bos;
  root["eos_token_id"] = config.eos;
  root["torch_dtype"] = torch_name_of(config.dtype);
  if (traits.nested == nullptr) return renamed(root, traits).dump(2) + "\n";
  ordered_json outside;
  for (const char* name : {"architectures", "model_type", "torch_dtype"}) {
    outside[name] = root[name];
    root.erase(name);
  }
  root["model_type"] = std::string(traits.model_type) + "_text";
  outside[traits.nested] = std::move(root);
  return outside.dump(2) + "\n";
}

}  // namespace causeway::model
