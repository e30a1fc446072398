#include "bench/model_shapes.h"

#include <array>

namespace causeway::app {
namespace {

struct KnownModel {
  std::string_view name;
  std::int64_t hidden, intermediate, heads, kv_heads, vocab;  // heads of 128
  std::int64_t experts = 0;                                   // intermediate is one expert's
};

constexpr std::array kModels = {
    KnownModel{"llama-3.2-3b", 3072, 8192, 24, 8, 128256},
    KnownModel{"llama-3.1-8b", 4096, 14336, 32, 8, 128256},
    KnownModel{"llama-3.1-70b", 8192, 28672, 64, 8, 128256},
    KnownModel{"qwen2.5-32b", 5120, 27648, 40, 8, 152064},
    KnownModel{"mixtral-8x7b", 4096, 14336, 32, 8, 32000, 8},
    KnownModel{"qwen3-30b-a3b", 2048, 768, 32, 4, 151936, 128},
};

model::ModelConfig config_of(const KnownModel& m) {
  model::ModelConfig config;
  config.hidden = m.hidden;
  config.heads = m.heads;
  config.kv_heads = m.kv_heads;
  config.head_dim = 128;
  config.vocab = m.vocab;
  config.layers = 1;
  if (m.experts == 0) {
    config.intermediate = m.intermediate;
  } else {
    config.moe.emplace();
    config.moe->experts = m.experts;
    config.moe->intermediate = m.intermediate;
  }
  return config;
}

}  // namespace

std::vector<WeightShape> weight_shapes(const model::ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim;
  std::vector<WeightShape> shapes = {{"qkv", q + 2 * c.kv_heads * c.head_dim, c.hidden},
                                     {"o", c.hidden, q}};
  if (c.intermediate > 0) {
    shapes.push_back({"gate_up", 2 * c.intermediate, c.hidden});
    shapes.push_back({"down", c.hidden, c.intermediate});
  }
  if (c.moe) {
    shapes.push_back({"expert_gate_up", 2 * c.moe->intermediate, c.hidden});
    shapes.push_back({"expert_down", c.hidden, c.moe->intermediate});
  }
  shapes.push_back({"head", c.vocab, c.hidden});
  return shapes;
}

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (const KnownModel& model : kModels) names.emplace_back(model.name);
  return names;
}

Result<std::vector<WeightShape>> weight_shapes_of(std::string_view model) {
  std::string names;
  for (const KnownModel& known : kModels) {
    if (known.name == model) return weight_shapes(config_of(known));
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return not_found("no shapes of " + std::string(model) + " are built in; there are " + names +
                   "; or give --model-config");
}

}  // namespace causeway::app
