// All that never changes of a model, made once from its config: what the pool loads, what the cache
// moves, what the executor computes with and what the engine must know. Plain data.
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
  std::vector<weights::ReadingStep> reading;  // every group once; those readable at home last

  // What a step of so many tokens computes and reads, at the least.
  double operations_per_token = 0;  // of products with weights
  Bytes bytes_per_step;             // weights that any step reads
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
