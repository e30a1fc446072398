// Everything about a model that never changes, made once from its config: what the pool loads, what
// the cache moves, what the executor computes with, and what the engine must know. Plain data.
#pragma once

#include <vector>

#include "base/result.h"
#include "kv/block_layout.h"
#include "model/config.h"
#include "weights/load_plan.h"
#include "weights/weight_cache.h"
#include "weights/weight_layout.h"

namespace causeway::model {

struct ModelCard {
  ModelConfig config;
  DType storage = DType::kBF16;  // of weights and KV
  weights::LoadPlan plan;
  weights::WeightLayout layout;
  kv::BlockLayout kv;
  // Every group once; groups that are readable at home come last.
  std::vector<weights::ReadingStep> reading;

  // The least that a step computes and reads.
  double operations_per_token = 0;  // for products with weights
  Bytes bytes_per_step;             // weights that every step reads
};

// Groups by their place in the plan (config.h): the embedding first, then the layers, the head
// last.
inline constexpr int kEmbeddingGroup = 0;
constexpr int layer_group(std::int64_t layer) { return static_cast<int>(layer) + 1; }
inline int head_group(const ModelConfig& config) { return layer_group(config.layers); }

// `storage`: the type that weights and KV are kept in; `frame`: bytes of a KV frame.
// kInvalidArgument when a frame does not hold one token; kResourceExhausted for a model that no
// machine holds.
Result<ModelCard> make_card(ModelConfig config, DType storage, Bytes frame);

}  // namespace causeway::model
