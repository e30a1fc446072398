#include "model/read_layers.h"

#include <algorithm>

namespace causeway::model {
namespace {

using kernels::activation::Gate;
using nlohmann::json;

// Null says that there is none, in which it differs from what is left out.
void read_window(Fields& fields, const json& root, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  if (!traits.windows) return;
  const bool left_out = !root.contains("sliding_window");
  const std::int64_t absent = left_out && traits.window > 0 ? traits.window : kPositionsMax;
  const std::int64_t window = fields.integer("sliding_window", kPositionsMax, absent);
  if (window < config.max_position.count) config.sliding_window = window;
}

// Which layers see all tokens, by "layer_types"; or every so many-th.
void read_layer_types(Fields& fields, ModelConfig& config) {
  const char* const name = "layer_types";
  const std::int64_t pattern = traits_of(config.family).window_pattern;
  const auto layers = static_cast<std::size_t>(config.layers);
  const json* types = fields.find(name);
  if (types == nullptr) {
    if (pattern == 0) return;
    constexpr std::int64_t kPatternMax = 4096;
    const std::int64_t every = fields.integer("sliding_window_pattern", kPatternMax, pattern);
    config.global_layers.assign(static_cast<std::size_t>(every), false);
    config.global_layers.back() = true;
    return;
  }
  const auto is = [](const json& type, const char* wanted) { return type == wanted; };
  const bool known = types->is_array() && std::all_of(types->begin(), types->end(), [&](auto& t) {
                       return is(t, "full_attention") || is(t, "sliding_attention");
                     });
  const bool full = known && std::all_of(types->begin(), types->end(),
                                         [&](auto& t) { return is(t, "full_attention"); });
  if (!known || (pattern == 0 && !full)) {
    return fields.refuse(name, pattern == 0 ? "asks for more than full_attention"
                                            : "asks for more than full_attention and "
                                              "sliding_attention");
  }
  if (pattern == 0) return;
  if (types->size() != layers) return fields.fail(name, "must name the type of each layer");
  for (const json& type : *types) config.global_layers.push_back(is(type, "full_attention"));
}

void read_activation(Fields& fields, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  const char* const name = traits.activation_name;
  constexpr const char* kGelu = "gelu_pytorch_tanh";
  const std::string asked = fields.string(name, traits.activation == Gate::kSilu ? "silu" : kGelu);
  config.activation = asked == kGelu ? Gate::kGeluTanh : Gate::kSilu;
  if (asked == "silu" || (asked == kGelu && !traits.experts)) return;
  fields.refuse(
      name, "is \"" + asked.substr(0, 40) + "\"; served are silu and, without experts, " + kGelu);
}

// What the family's code computes otherwise than is served, or not at all.
void refuse_qwen(Fields& fields) {
  const auto refuse_unless = [&](const char* name, bool wanted) {
    if (fields.boolean(name, wanted) == wanted) return;
    fields.refuse(name, std::string("is ") + (wanted ? "false" : "true") + ", which is not served");
  };
  refuse_unless("scale_attn_weights", true);
  refuse_unless("apply_residual_connection_post_layernorm", false);
  refuse_unless("use_cache_quantization", false);
  if (fields.string("pos_emb", "rotary") != "rotary") fields.refuse("pos_emb", "must be rotary");
  for (const char* name : {"visual", "audio"}) {
    if (fields.find(name) != nullptr) fields.refuse(name, "is set; text models alone are served");
  }
}

// RoPE's base follows the length of the prompt with "use_dynamic_ntk" and is that of training up to
// "seq_length", also while the answer goes beyond; keys in the cache cannot change theirs.
void read_context(Fields& fields, ModelConfig& config) {
  const Tokens trained(fields.integer("seq_length", kPositionsMax, {}, 2));
  config.max_position = std::max(config.max_position, trained);
  const bool logn = fields.boolean("use_logn_attn", true);
  const bool dynamic = fields.boolean("use_dynamic_ntk", true);
  if (trained == config.max_position) return;
  if (logn) config.logn_context = trained.count;
  if (dynamic) config.max_prompt = trained;
}

// 0 where it is null, or left out and none by default.
double read_cap(Fields& fields, const json& root, const char* name, double absent) {
  return fields.real(name, root.contains(name) ? 0 : absent, 1e-3, 1e6);
}

}  // namespace

void read_layers(Fields& fields, const json& root, ModelConfig& config) {
  const FamilyTraits& traits = traits_of(config.family);
  read_window(fields, root, config);
  read_layer_types(fields, config);
  read_activation(fields, config);
  if (config.family != Family::kLlama && fields.boolean("use_sliding_window", false)) {
    fields.refuse("use_sliding_window", "is set; windows in some of the layers are not served");
  }
  if (traits.logn) {
    refuse_qwen(fields);
    read_context(fields, config);
  }
  if (!traits.gemma_norms) return;
  config.norm_offset = config.output_norms = config.scaled_embedding = true;
  config.query_scalar = fields.real("query_pre_attn_scalar", 256, 1e-3, 1e9);
  config.attention_cap = read_cap(fields, root, "attn_logit_softcapping", traits.attention_cap);
  config.logit_cap = read_cap(fields, root, "final_logit_softcapping", traits.logit_cap);
  if (fields.boolean("use_bidirectional_attention", false)) {
    fields.refuse("use_bidirectional_attention", "is set; tokens see those in front of them alone");
  }
}

}  // namespace causeway::model
