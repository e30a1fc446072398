#include "slice/testing/small_model.h"

#include <cstring>

#include "base/random.h"
#include "model/random_model.h"

namespace causeway::slice::testing {

model::ModelConfig small_model(std::int64_t layers, bool tied) {
  model::ModelConfig config = model::random_model_config(model::Family::kLlama);
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

void fill_random(std::span<std::byte> memory, std::uint64_t seed, float scale) {
  Random random(seed);
  for (std::size_t i = 0; i + sizeof(float) <= memory.size(); i += sizeof(float)) {
    const auto value = static_cast<float>(random.uniform() - 0.5) * scale;
    std::memcpy(&memory[i], &value, sizeof(value));
  }
}

}  // namespace causeway::slice::testing
