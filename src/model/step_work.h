// The work that a step of a model has to do: what it reads and what it computes.
#pragma once

#include "model/config.h"

namespace causeway::model {

// Weights that a decode step of `batch` tokens reads: all but the untied embedding, and of each
// sparse layer's experts as many as such a batch is expected to choose when all are alike:
// experts × (1 - (1 - chosen ÷ experts)^batch).
Bytes decode_weight_bytes(const ModelConfig& config, DType storage, std::int64_t batch);

// The same when the sparse layers together read `experts` experts.
Bytes decode_weight_bytes_of(const ModelConfig& config, DType storage, double experts);

std::int64_t sparse_layers(const ModelConfig& config);

// A prompt's operations: two a weight of the layers and token (of experts: those chosen), the head
// for the last token, and the causal half of attention's two products.
double prefill_operations(const ModelConfig& config, std::int64_t tokens);

// What one more token of a prompt adds, where its attention is short.
double operations_per_token(const ModelConfig& config);

}  // namespace causeway::model
