// What the forward benchmarks of all backends share: a model laid out in memory of the caller's,
// and the work that a step has to do.
#pragma once

#include <map>
#include <string>

#include "model/config.h"
#include "weights/model_pool.h"

namespace causeway::model {

// Names the weights of a plan in memory of the caller's, tensor after tensor in the plan's order;
// reads and writes nothing of it. It has no home.
class PlacedModel final : public weights::PinnedModel {
 public:
  static Bytes bytes_of(const weights::LoadPlan& plan);

  // `memory`: bytes_of(plan) at a multiple of 256 bytes, of any device; outlives the object.
  PlacedModel(const weights::LoadPlan& plan, std::byte* memory, weights::WeightPlace place);

  weights::WeightView weight(std::string_view group, std::string_view tensor) const override;
  const std::vector<weights::GroupRange>& groups() const override { return groups_; }
  Bytes bytes() const override { return bytes_; }

 private:
  std::map<std::string, weights::WeightView> views_;
  std::vector<weights::GroupRange> groups_;
  Bytes bytes_;
};

// Weights that a decode step of `batch` tokens reads: all but the untied embedding, and of each
// sparse layer's experts as many as such a batch is expected to choose when all are alike:
// experts × (1 - (1 - chosen ÷ experts)^batch).
Bytes decode_weight_bytes(const ModelConfig& config, DType storage, std::int64_t batch);

// The same when the sparse layers together read `experts` experts.
Bytes decode_weight_bytes_of(const ModelConfig& config, DType storage, double experts);

std::int64_t sparse_layers(const ModelConfig& config);

// Of a prompt: two operations a weight of the layers and token (of experts: those chosen), the head
// for the last token, and the causal half of attention's two products.
double prefill_operations(const ModelConfig& config, std::int64_t tokens);

}  // namespace causeway::model
