#include "model/step_work.h"

#include <cmath>

namespace causeway::model {
namespace {

double parameters_of_expert(const ModelConfig& c) {
  return static_cast<double>(3 * c.moe->intermediate * c.hidden);
}

}  // namespace

std::int64_t sparse_layers(const ModelConfig& c) {
  std::int64_t layers = 0;
  for (std::int64_t i = 0; i < c.layers; ++i) layers += c.is_sparse(i) ? 1 : 0;
  return layers;
}

Bytes decode_weight_bytes(const ModelConfig& c, DType storage, std::int64_t batch) {
  if (!c.moe) return decode_weight_bytes_of(c, storage, 0);
  const auto experts = static_cast<double>(c.moe->experts);
  const double passed_over =
      std::pow(1 - static_cast<double>(c.moe->experts_per_token) / experts, batch);
  const auto layers = static_cast<double>(sparse_layers(c));
  return decode_weight_bytes_of(c, storage, layers * experts * (1 - passed_over));
}

Bytes decode_weight_bytes_of(const ModelConfig& c, DType storage, double experts) {
  const std::int64_t unread = c.tied_embeddings ? 0 : c.vocab * c.hidden;
  double read = static_cast<double>(parameter_count(c) - unread);
  if (c.moe) {
    const auto all = static_cast<double>(sparse_layers(c) * c.moe->experts);
    read -= (all - experts) * parameters_of_expert(c);
  }
  return Bytes(static_cast<std::int64_t>(static_cast<double>(size_of(storage).count) * read));
}

double prefill_operations(const ModelConfig& c, std::int64_t tokens) {
  const std::int64_t tables = (c.tied_embeddings ? 1 : 2) * c.vocab * c.hidden;
  auto layers = static_cast<double>(parameter_count(c) - tables);
  if (c.moe) {
    const std::int64_t passed_over = c.moe->experts - c.moe->experts_per_token;
    layers -= parameters_of_expert(c) * static_cast<double>(sparse_layers(c) * passed_over);
  }
  const auto count = static_cast<double>(tokens);
  const auto width = static_cast<double>(c.heads * c.head_dim * c.layers);
  return 2 * layers * count + 2 * static_cast<double>(c.vocab * c.hidden) +
         2 * count * (count + 1) * width;
}

double operations_per_token(const ModelConfig& c) {
  return prefill_operations(c, 2) - prefill_operations(c, 1);
}

}  // namespace causeway::model
