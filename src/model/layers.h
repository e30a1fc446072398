// A model's weights as the forward pass reads them: looked up by name once, checked against the
// config, and then plain references in execution order.
#pragma once

#include <vector>

#include "kernels/weights_ref.h"
#include "model/config.h"
#include "weights/weight_layout.h"

namespace causeway::model {

// The weights of one layer; what the config does not have is absent.
struct LayerWeights {
  kernels::WeightsRef input_norm;  // [hidden]
  kernels::WeightsRef qkv;         // [(heads + 2 kv_heads) × head_dim][hidden]
  kernels::WeightsRef qkv_bias;
  kernels::WeightsRef q_norm;  // [head_dim]
  kernels::WeightsRef k_norm;  // [head_dim]
  kernels::WeightsRef o;       // [hidden][heads × head_dim]
  kernels::WeightsRef o_bias;
  kernels::WeightsRef attention_norm;  // [hidden]
  kernels::WeightsRef post_norm;       // [hidden]
  kernels::WeightsRef mlp_norm;        // [hidden]
  bool sparse = false;
  kernels::WeightsRef gate_up;  // dense: [2 × intermediate][hidden]
  kernels::WeightsRef gate_up_bias;
  kernels::WeightsRef down;  // dense: [hidden][intermediate]
  kernels::WeightsRef down_bias;
  kernels::WeightsRef router;           // sparse: [experts][hidden]
  kernels::WeightsRef experts_gate_up;  // sparse: [experts][2 × moe.intermediate][hidden]
  kernels::WeightsRef experts_down;     // sparse: [experts][hidden][moe.intermediate]
};

struct ModelWeights {
  kernels::WeightsRef embedding;  // [vocab][hidden]
  std::vector<LayerWeights> layers;
  kernels::WeightsRef norm;     // [hidden]
  kernels::WeightsRef lm_head;  // [vocab][hidden]; the embedding when tied
};

// A weight of another shape or type than the config's is a CHECK failure: the pool loads by the
// plan. Experts that are not placed with their layers are absent: they are cached one by one.
ModelWeights find_weights(const ModelConfig& config, const weights::PlacedWeights& placed);

}  // namespace causeway::model
