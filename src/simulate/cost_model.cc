#include "simulate/cost_model.h"

#include <algorithm>
#include <cmath>

#include "model/model_card.h"
#include "simulate/home_read.h"

namespace causeway::simulate {

Result<ModelShape> shape_of(const std::string& name, const model::ModelConfig& config,
                            Bytes frame) {
  CAUSEWAY_ASSIGN(const model::ModelCard card, model::make_card(config, DType::kBF16, frame));
  const kv::KvShape kv = model::kv_shape(config, DType::kBF16);
  const std::int64_t element = size_of(DType::kBF16).count;
  const std::int64_t embedding = config.vocab * config.hidden;
  const std::int64_t parameters = model::parameter_count(config);

  ModelShape shape;
  shape.name = name;
  shape.weights = Bytes(parameters * element);
  std::int64_t expert = 0;
  if (config.moe) {
    std::int64_t sparse_layers = 0;
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      sparse_layers += config.is_sparse(layer);
    }
    expert = 3 * config.hidden * config.moe->intermediate * sparse_layers;
    shape.experts = config.moe->experts;
    shape.experts_per_token = config.moe->experts_per_token;
    shape.expert = Bytes(expert * element);
  }
  // A tied table is read once, as the head; an untied one is only gathered from.
  const std::int64_t always =
      parameters - shape.experts * expert - (config.tied_embeddings ? 0 : embedding);
  shape.weights_always = Bytes(always * element);
  shape.flops_per_token = 2.0 * static_cast<double>(always + shape.experts_per_token * expert);
  shape.flops_per_context_token =
      4.0 * static_cast<double>(config.layers * config.heads * config.head_dim);
  shape.kv_per_token = Bytes(2 * kv.layers * kv.kv_heads * kv.head_dim * element);
  shape.tokens_per_block = card.kv.tokens;
  shape.max_model_len = config.max_position;
  shape.vocab = config.vocab;
  shape.config = config;
  shape.layout = card.layout;
  shape.reading = card.reading;
  shape.cached = weights::cached_model(card.layout, card.reading);
  return shape;
}

namespace {

// The share of the experts chosen by a uniform router that have no slot once all slots are taken.
double missed_share(const ModelShape& shape) {
  if (!shape.cached.experts) return 0;
  const weights::ExpertPlan& plan = *shape.cached.experts;
  const auto all = static_cast<double>(plan.experts * std::ssize(plan.layers));
  return std::max(0.0, 1 - static_cast<double>(plan.slots) / all);
}

double given_or(double rate, double otherwise) { return rate > 0 ? rate : otherwise; }

// What products take that alone would compute for `one` and read for `other`: the longer, and where
// both take the same a quarter more, since kernels reach neither limit there.
double both(double one, double other) {
  const double longer = std::max(one, other), share = std::min(one, other) / longer;
  return longer > 0 ? longer * std::cbrt(1 + share * share * share) : 0;
}

}  // namespace

StepTokens tokens_of(const request::Batch& batch) {
  StepTokens sum{.tokens = static_cast<double>(batch.tokens.size())};
  for (const request::BatchEntry& entry : batch.entries) {
    sum.add(entry.token_count, entry.context);
  }
  return sum;
}

StepWork work_of(const StepTokens& step, const ModelShape& shape) {
  const double tokens = step.tokens;
  double experts_hit = 0;
  if (shape.experts > 0) {
    const auto all = static_cast<double>(shape.experts);
    const double miss = 1 - static_cast<double>(shape.experts_per_token) / all;
    experts_hit = all * (1 - std::pow(std::max(miss, 0.0), tokens));
  }
  const double hit = experts_hit * static_cast<double>(shape.expert.count);
  const double weights = static_cast<double>(shape.weights_always.count) + hit;
  return {.product_flops = tokens * shape.flops_per_token,
          .attention_flops = step.pairs * shape.flops_per_context_token,
          .weights = Bytes(std::llround(weights)),
          .missed = Bytes(std::llround(hit * missed_share(shape))),
          .kv_bytes = step.kv_tokens * static_cast<double>(shape.kv_per_token.count),
          .layers = shape.config.layers,
          .tokens = tokens,
          .prompts = step.prompts};
}

StepDurations::StepDurations(const StepWork& alike, const HardwareProfile& profile, bool copies)
    : slower_(copies ? 1 + profile.copy_slowdown : 1),
      attention_rate_(given_or(alike.prompts ? profile.prompt_attention_flops_per_second : 0,
                               profile.flops_per_second)),
      kv_rate_(profile.attention_bytes_per_second) {
  const auto weights = static_cast<double>((alike.weights - alike.missed).count);
  products_ = both(alike.product_flops / profile.flops_per_second,
                   slower_ * weights / profile.memory_bytes_per_second);
  if (alike.missed > Bytes(0)) {
    products_ += static_cast<double>(alike.missed.count) / home_rate(profile);
  }
  const double per_token =
      alike.prompts ? profile.prompt_attention_token_seconds * alike.tokens : 0;
  beside_ = per_token * static_cast<double>(alike.layers);
  const Nanos layer = alike.prompts ? profile.prompt_layer_overhead : profile.layer_overhead;
  overhead_ = profile.step_overhead + layer * alike.layers;
}

Nanos step_min(const ModelShape& shape, const HardwareProfile& profile) {
  return nanos_from_seconds(static_cast<double>(shape.weights_always.count) /
                            profile.memory_bytes_per_second);
}

double seconds_per_token(const ModelShape& shape, const HardwareProfile& profile) {
  return shape.flops_per_token / profile.flops_per_second;
}

}  // namespace causeway::simulate
