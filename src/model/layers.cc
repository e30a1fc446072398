#include "model/layers.h"

#include <optional>
#include <string>

#include "base/check.h"

namespace causeway::model {
namespace {

using kernels::WeightsRef;

// Looks weights up in one group.
class Group {
 public:
  Group(const weights::PlacedWeights& placed, std::string name)
      : placed_(placed), name_(std::move(name)) {}

  WeightsRef find(std::string_view tensor, std::int64_t rows, std::int64_t cols) const {
    const weights::TensorView view = placed_.tensor(name_, tensor);
    // A vector of n is [1, n]; stacked vectors (q, k and v biases) are n elements in any shape.
    const bool fits =
        rows == 1 ? view.rows * view.cols == cols : view.rows == rows && view.cols == cols;
    CAUSEWAY_CHECK(fits, name_ + "." + std::string(tensor) + " has another shape than the config");
    CAUSEWAY_CHECK(view.dtype != DType::kF16, "weights on the CPU that are neither F32 nor BF16");
    return {view.data, view.dtype};
  }
  bool has(std::string_view tensor) const { return placed_.has(name_, tensor); }
  WeightsRef find_if(bool present, std::string_view tensor, std::int64_t rows,
                     std::int64_t cols) const {
    return present ? find(tensor, rows, cols) : WeightsRef{};
  }

 private:
  const weights::PlacedWeights& placed_;
  std::string name_;
};

LayerWeights find_layer(const ModelConfig& c, const Group& group, bool sparse) {
  const std::int64_t qkv_rows = (c.heads + 2 * c.kv_heads) * c.head_dim;
  LayerWeights w;
  w.input_norm = group.find("input_norm", 1, c.hidden);
  w.qkv = group.find("qkv", qkv_rows, c.hidden);
  w.qkv_bias = group.find_if(c.attention_bias, "qkv_bias", 1, qkv_rows);
  w.q_norm = group.find_if(c.qk_norm, "q_norm", 1, c.head_dim);
  w.k_norm = group.find_if(c.qk_norm, "k_norm", 1, c.head_dim);
  w.o = group.find("o", c.hidden, c.heads * c.head_dim);
  w.o_bias = group.find_if(c.output_bias, "o_bias", 1, c.hidden);
  w.attention_norm = group.find_if(c.output_norms, "attention_norm", 1, c.hidden);
  w.post_norm = group.find("post_norm", 1, c.hidden);
  w.mlp_norm = group.find_if(c.output_norms, "mlp_norm", 1, c.hidden);
  w.sparse = sparse;
  if (sparse) {
    const MoeConfig& moe = *c.moe;
    w.router = group.find("router", moe.experts, c.hidden);
    if (!group.has("experts_gate_up")) return w;
    w.experts_gate_up = group.find("experts_gate_up", moe.experts * 2 * moe.intermediate, c.hidden);
    w.experts_down = group.find("experts_down", moe.experts * c.hidden, moe.intermediate);
    return w;
  }
  w.gate_up = group.find("gate_up", 2 * c.intermediate, c.hidden);
  w.gate_up_bias = group.find_if(c.mlp_bias, "gate_up_bias", 1, 2 * c.intermediate);
  w.down = group.find("down", c.hidden, c.intermediate);
  w.down_bias = group.find_if(c.mlp_bias, "down_bias", 1, c.hidden);
  return w;
}

}  // namespace

ModelWeights find_weights(const ModelConfig& config, const weights::PlacedWeights& placed) {
  ModelWeights w;
  w.embedding = Group(placed, "embedding").find("embedding", config.vocab, config.hidden);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const Group group(placed, "layers." + std::to_string(i));
    w.layers.push_back(find_layer(config, group, config.is_sparse(i)));
  }
  const Group head(placed, "head");
  w.norm = head.find("norm", 1, config.hidden);
  w.lm_head =
      config.tied_embeddings ? w.embedding : head.find("lm_head", config.vocab, config.hidden);
  return w;
}

}  // namespace causeway::model
