// The weights of models that benchmarks of matrix products go through, by name or from a config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace causeway::app {

// [n][k]: rows × columns. Gate and up are one weight.
struct WeightShape {
  std::string name;  // "qkv", "o", "gate_up", "down", "expert_gate_up", "expert_down", "head"
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// One layer's products and the head's, of a mixture of experts those of one expert.
std::vector<WeightShape> weight_shapes(const model::ModelConfig& config);

// Of the models of the paper's evaluation and their like, as published: llama-3.2-3b, llama-3.1-8b,
// llama-3.1-70b, qwen2.5-32b, mixtral-8x7b, qwen3-30b-a3b. kNotFound lists the names.
Result<std::vector<WeightShape>> weight_shapes_of(std::string_view model);
std::vector<std::string> known_models();

}  // namespace causeway::app
