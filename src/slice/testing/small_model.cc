#include "slice/testing/small_model.h"

#include <cstring>

#include "base/random.h"
#include "model/random_model.h"

namespace causeway::slice::testing {

namespace {

model::ModelConfig small(model::Family family, std::int64_t layers, bool tied) {
  model::ModelConfig config = model::random_model_config(family);
  config.layers = layers;
  config.hidden = 64;
  config.intermediate = 256;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.vocab = 500;
  config.tied_embeddings = tied;
  config.dtype = DType::kF32;
  return config;
}

}  // namespace

model::ModelConfig small_model(std::int64_t layers, bool tied) {
  return small(model::Family::kLlama, layers, tied);
}

model::ModelConfig small_sparse_model(std::int64_t layers, bool tied) {
  model::ModelConfig config = small(model::Family::kQwen3Moe, layers, tied);
  config.moe->experts = 8;
  config.moe->experts_per_token = 2;
  config.moe->intermediate = 64;
  return config;
}

void fill_random(std::span<std::byte> memory, std::uint64_t seed, float scale) {
  Random random(seed);
  for (std::size_t i = 0; i + sizeof(float) <= memory.size(); i += sizeof(float)) {
    const auto value = static_cast<float>(random.uniform() - 0.5) * scale;
    std::memcpy(&memory[i], &value, sizeof(value));
  }
}

}  // namespace causeway::slice::testing
