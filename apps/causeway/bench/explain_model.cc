#include "bench/explain_model.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/attention/attention_cuda.h"
#include "kernels/moe/moe_cuda.h"
#include "model/step_explain.h"
#include "model/step_program.h"
#include "request/batch.h"

namespace causeway::app {
namespace {

constexpr int kSmallBatchCluster = 8;  // where a GPU has room for as many clusters

// `sequences` of `context` tokens before this step and `tokens` in it.
model::StepShape shape_of(const model::ModelConfig& config, std::int64_t sequences,
                          std::int64_t context, std::int64_t tokens) {
  request::Batch batch;
  for (std::int64_t i = 0; i < sequences; ++i) {
    request::BatchEntry entry;
    entry.token_count = static_cast<std::int32_t>(tokens);
    entry.context = static_cast<std::int32_t>(context);
    entry.samples = true;
    batch.entries.push_back(std::move(entry));
  }
  return model::shape_of(batch, {&sequences, 1}, config.plain_context());
}

bool front_fits(const model::ModelConfig& c, std::int64_t tokens, int sm_count) {
#ifdef CAUSEWAY_CUDA_BUILT
  return kernels::moe::front_fits({.hidden = c.hidden,
                                   .intermediate = c.moe->intermediate,
                                   .experts = c.moe->experts,
                                   .experts_per_token = c.moe->experts_per_token},
                                  tokens, sm_count);
#else
  static_cast<void>(c);
  static_cast<void>(sm_count);
  return tokens <= kernels::moe::kFrontTokens;
#endif
}

model::StepFacts facts_of(const ExplainSettings& settings, const model::StepShape& shape) {
  const model::ModelConfig& c = settings.config;
  const bool few =
      shape.decode > 0 && kernels::attention::small_batch_serves({c.heads, c.kv_heads, c.head_dim});
  return {.sm_count = settings.sm_count,
          .small_batch_cluster = few ? kSmallBatchCluster : 0,
          .experts_front = c.moe && front_fits(c, shape.rows, settings.sm_count)};
}

Result<std::string> explain_step(const ExplainSettings& settings, const model::StepShape& shape,
                                 const std::string& title) {
  CAUSEWAY_ASSIGN(const model::StepProgram program,
                  model::make_step_program(settings.config, shape, facts_of(settings, shape), {}));
  return title + "\n" + model::explain(program, settings.config) + "\n";
}

}  // namespace

Result<std::string> explain_model(const ExplainSettings& settings) {
  std::string text = fmt::format(
      "{} SMs and room for clusters of {} CTAs are assumed, and that all weights are in HBM\n\n",
      settings.sm_count, kSmallBatchCluster);
  for (const std::int64_t batch : settings.decode_batches) {
    CAUSEWAY_ASSIGN(
        const std::string step,
        explain_step(settings, shape_of(settings.config, batch, settings.decode_context, 1),
                     fmt::format("decode, batch {}, context {}", batch, settings.decode_context)));
    text += step;
  }
  CAUSEWAY_ASSIGN(const std::string step,
                  explain_step(settings, shape_of(settings.config, 1, 0, settings.prefill_tokens),
                               fmt::format("prefill, {} tokens", settings.prefill_tokens)));
  return text + step;
}

}  // namespace causeway::app
