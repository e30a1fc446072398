// Shapes of models that tests make up.
#pragma once

#include "simulate/cost_model.h"

namespace causeway::simulate::testing {

// A config of Llama-3.1-8B's shape, with this context.
inline model::ModelConfig llama_8b(Tokens context) {
  model::ModelConfig config;
  config.hidden = 4096;
  config.intermediate = 14'336;
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.vocab = 128'256;
  config.max_position = context;
  return config;
}

// Gives the model so many groups of weights of one size, the first of which stays at home.
inline void add_groups(int groups, Bytes each, ModelShape& shape) {
  for (int i = 0; i < groups; ++i) {
    shape.layout.groups.push_back({.name = {}, .offset = each * i, .bytes = each, .tensors = {}});
    shape.layout.bytes += each;
    if (i > 0) shape.reading.push_back({.group = i});
  }
  shape.reading.push_back({.group = 0, .stays = true});
  shape.cached = weights::cached_model(shape.layout, shape.reading);
}

}  // namespace causeway::simulate::testing
