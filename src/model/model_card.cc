#include "model/model_card.h"

#include "model/step_work.h"

namespace causeway::model {
namespace {

// A tied embedding is the head's matrix too, so that a step needs all of it in the cache.
std::vector<weights::ReadingStep> reading_of(const ModelConfig& config) {
  std::vector<weights::ReadingStep> reading;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::int64_t experts = config.is_sparse(i) ? config.moe->experts : 0;
    reading.push_back({.group = layer_group(i), .experts = static_cast<int>(experts)});
  }
  reading.push_back({.group = head_group(config)});
  reading.push_back({.group = kEmbeddingGroup,
                     .readable_at_home = !config.tied_embeddings,
                     .stays = config.tied_embeddings});
  return reading;
}

}  // namespace

Result<ModelCard> make_card(ModelConfig config, DType storage, Bytes frame) {
  ModelCard card;
  card.storage = storage;
  card.plan = plan_weights(config, storage);
  CAUSEWAY_ASSIGN(card.layout, weights::lay_out(card.plan));
  CAUSEWAY_ASSIGN(card.kv, kv::plan_block(kv_shape(config, storage), frame));
  card.reading = reading_of(config);
  card.operations_per_token = operations_per_token(config);
  card.bytes_per_step = decode_weight_bytes(config, storage, 1);
  card.config = std::move(config);
  return card;
}

}  // namespace causeway::model
