// What config.h says of the load plan, KV and parameter count of a model, derived from its config.
#include <limits>
#include <utility>

#include "base/check.h"
#include "model/config.h"

namespace causeway::model {
namespace {

using weights::LoadPlan;
using weights::PlannedGroup;
using weights::PlannedTensor;
using weights::SourceTensor;

std::int64_t query_rows(const ModelConfig& c) { return c.heads * c.head_dim; }
std::int64_t key_rows(const ModelConfig& c) { return c.kv_heads * c.head_dim; }

PlannedTensor one(std::string name, std::string source, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), {{std::move(source), rows, cols}}};
}

// `heads` heads of a tensor, one after the other from `whole.first_row` on. Where RoPE rotates the
// first part of a head alone, each head's rows are put so that what is rotated together lies half a
// head apart, as in heads that are rotated whole:
//
//   file │ first half of the rotated │ second half │ rest              │
//   pool │ first half of the rotated │ rest, 1st ½ │ second half │ rest, 2nd ½ │
//
// Queries and keys are put alike, so that their products are what they were.
void add_rotated(const ModelConfig& c, const SourceTensor& whole, std::int64_t heads,
                 std::vector<SourceTensor>& out) {
  const auto add = [&](std::int64_t first, std::int64_t rows) {
    SourceTensor part = whole;
    part.tensor_rows = whole.rows_of_tensor();
    part.first_row = whole.first_row + first;
    part.rows = rows;
    out.push_back(std::move(part));
  };
  if (!c.partly_rotated()) return add(0, heads * c.head_dim);
  const std::int64_t pairs = c.rotary_dim / 2, rest = c.head_dim / 2 - pairs;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t first = head * c.head_dim;
    add(first, pairs);
    add(first + 2 * pairs, rest);
    add(first + pairs, pairs);
    add(first + 2 * pairs + rest, rest);
  }
}

// Rows of q, k and v: of `part`.weight or .bias.
PlannedTensor plan_qkv(const ModelConfig& c, const std::string& name, const std::string& layer,
                       const std::string& part, std::int64_t cols) {
  const std::int64_t q = query_rows(c), kv = key_rows(c), all = q + 2 * kv;
  const FamilyTraits& traits = traits_of(c.family);
  const std::string together = layer + std::string(traits.names.qkv) + part;
  const std::string base = layer + std::string(traits.names.attention);
  PlannedTensor tensor{name, {}};
  if (traits.fused_qkv && !c.partly_rotated()) return one(name, together, all, cols);
  const auto source = [&](const char* own, std::int64_t rows, std::int64_t first) {
    return traits.fused_qkv ? SourceTensor{together, rows, cols, all, first}
                            : SourceTensor{base + own + part, rows, cols};
  };
  add_rotated(c, source("q_proj", q, 0), c.heads, tensor.sources);
  add_rotated(c, source("k_proj", kv, q), c.kv_heads, tensor.sources);
  tensor.sources.push_back(source("v_proj", kv, q + kv));
  return tensor;
}

PlannedTensor plan_head_norm(const ModelConfig& c, const char* name, const std::string& base) {
  const std::string source = base + name + ".weight";
  if (!c.partly_rotated()) return one(name, source, 1, c.head_dim);
  PlannedTensor tensor{name, {}};
  add_rotated(c, {source, c.head_dim, 1}, 1, tensor.sources);
  return tensor;
}

void plan_attention(const ModelConfig& c, const std::string& layer, PlannedGroup& group) {
  const TensorNames& names = traits_of(c.family).names;
  const std::string base = layer + std::string(names.attention);
  const std::string o = layer + std::string(names.o);
  group.tensors.push_back(plan_qkv(c, "qkv", layer, ".weight", c.hidden));
  if (c.attention_bias) group.tensors.push_back(plan_qkv(c, "qkv_bias", layer, ".bias", 1));
  if (c.qk_norm) {
    group.tensors.push_back(plan_head_norm(c, "q_norm", base));
    group.tensors.push_back(plan_head_norm(c, "k_norm", base));
  }
  group.tensors.push_back(one("o", o + ".weight", c.hidden, query_rows(c)));
  if (c.output_bias) group.tensors.push_back(one("o_bias", o + ".bias", c.hidden, 1));
}

void plan_dense_mlp(const ModelConfig& c, const std::string& layer, PlannedGroup& group) {
  const FamilyTraits& traits = traits_of(c.family);
  const auto named = [&](std::string_view name) { return layer + std::string(name); };
  const std::string gate = named(traits.names.gate), up = named(traits.names.up);
  const std::string down = named(traits.names.down);
  if (traits.fused_gate_up) {
    group.tensors.push_back(
        one("gate_up", named(traits.names.gate_up) + ".weight", 2 * c.intermediate, c.hidden));
  } else {
    group.tensors.push_back({"gate_up",
                             {{gate + ".weight", c.intermediate, c.hidden},
                              {up + ".weight", c.intermediate, c.hidden}}});
  }
  if (c.mlp_bias) {
    group.tensors.push_back(
        {"gate_up_bias", {{gate + ".bias", c.intermediate, 1}, {up + ".bias", c.intermediate, 1}}});
  }
  group.tensors.push_back(one("down", down + ".weight", c.hidden, c.intermediate));
  if (c.mlp_bias) group.tensors.push_back(one("down_bias", down + ".bias", c.hidden, 1));
}

void plan_sparse_mlp(const ModelConfig& c, const std::string& layer, PlannedGroup& group) {
  const MoeConfig& moe = *c.moe;
  const ExpertNames& names = *traits_of(c.family).experts;
  const auto weight = [](const std::string& expert, std::string_view name) {
    return expert + std::string(name) + ".weight";
  };
  const std::string base = layer + std::string(names.block);
  group.tensors.push_back(one("router", base + "gate.weight", moe.experts, c.hidden));
  PlannedTensor gate_up{"experts_gate_up", {}};
  PlannedTensor down{"experts_down", {}};
  for (std::int64_t e = 0; e < moe.experts; ++e) {
    const std::string expert = base + "experts." + std::to_string(e) + ".";
    gate_up.sources.push_back({weight(expert, names.gate), moe.intermediate, c.hidden});
    gate_up.sources.push_back({weight(expert, names.up), moe.intermediate, c.hidden});
    down.sources.push_back({weight(expert, names.down), c.hidden, moe.intermediate});
  }
  group.tensors.push_back(std::move(gate_up));
  group.tensors.push_back(std::move(down));
}

PlannedGroup plan_layer(const ModelConfig& c, std::int64_t index) {
  const FamilyTraits& traits = traits_of(c.family);
  const TensorNames& names = traits.names;
  const std::string number = std::to_string(index);
  const std::string layer = std::string(traits.prefix) + std::string(names.layers) + number + ".";
  PlannedGroup group{"layers." + number, {}};
  const auto add_norm = [&](const char* norm, std::string_view source) {
    group.tensors.push_back(one(norm, layer + std::string(source) + ".weight", 1, c.hidden));
  };
  add_norm("input_norm", names.input_norm);
  plan_attention(c, layer, group);
  if (c.output_norms) add_norm("attention_norm", names.post_norm);
  add_norm("post_norm", c.output_norms ? "pre_feedforward_layernorm" : names.post_norm);
  if (c.is_sparse(index)) {
    plan_sparse_mlp(c, layer, group);
  } else {
    plan_dense_mlp(c, layer, group);
  }
  if (c.output_norms) add_norm("mlp_norm", "post_feedforward_layernorm");
  return group;
}

// Parameters of one layer; wide, because it runs before the sizes are known to be sane.
__int128 layer_parameters(const ModelConfig& c, bool sparse) {
  const __int128 hidden = c.hidden, q = query_rows(c), kv = key_rows(c);
  __int128 count = (c.output_norms ? 4 : 2) * hidden + hidden * (2 * q + 2 * kv);
  if (c.attention_bias) count += q + 2 * kv;
  if (c.output_bias) count += hidden;
  if (c.qk_norm) count += 2 * c.head_dim;
  if (sparse) {
    return count + hidden * c.moe->experts * (1 + __int128{3} * c.moe->intermediate);
  }
  count += 3 * hidden * c.intermediate;
  if (c.mlp_bias) count += __int128{2} * c.intermediate + hidden;
  return count;
}

}  // namespace

LoadPlan plan_weights(const ModelConfig& config, DType storage) {
  LoadPlan plan{storage, {}};
  const FamilyTraits& traits = traits_of(config.family);
  const std::string prefix(traits.prefix);
  const auto named = [&](std::string_view name) { return prefix + std::string(name) + ".weight"; };
  plan.groups.push_back(
      {"embedding",
       {one("embedding", named(traits.names.embedding), config.vocab, config.hidden)}});
  for (std::int64_t i = 0; i < config.layers; ++i) plan.groups.push_back(plan_layer(config, i));
  PlannedGroup head{"head", {one("norm", named(traits.names.norm), 1, config.hidden)}};
  if (!config.tied_embeddings) {
    head.tensors.push_back(one("lm_head", named("lm_head"), config.vocab, config.hidden));
  }
  plan.groups.push_back(std::move(head));
  return plan;
}

kv::KvShape kv_shape(const ModelConfig& config, DType kv_dtype) {
  return {config.layers, config.kv_heads, config.head_dim, kv_dtype};
}

std::int64_t parameter_count(const ModelConfig& config) {
  __int128 count = __int128{config.vocab} * config.hidden * (config.tied_embeddings ? 1 : 2);
  count += config.hidden;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    count += layer_parameters(config, config.is_sparse(i));
  }
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return count > kMax ? kMax : static_cast<std::int64_t>(count);
}

}  // namespace causeway::model
