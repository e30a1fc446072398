#include "model/cuda_experts.h"

#include "base/check.h"

namespace causeway::model {
namespace {

kernels::moe::ShapeCuda shape_of(const ModelConfig& c) {
  return {.hidden = c.hidden,
          .intermediate = c.moe->intermediate,
          .experts = c.moe->experts,
          .experts_per_token = c.moe->experts_per_token};
}

// The three tables of one layer: experts lie one after the other, gate before up.
void append_tables(const ModelConfig& c, const LayerWeights& w, std::vector<const void*>& out) {
  const std::int64_t matrix = c.moe->intermediate * c.hidden;
  for (std::int64_t e = 0; e < c.moe->experts; ++e) {
    out.push_back(w.experts_gate_up.from(2 * e * matrix).data);
  }
  for (std::int64_t e = 0; e < c.moe->experts; ++e) {
    out.push_back(w.experts_gate_up.from((2 * e + 1) * matrix).data);
  }
  for (std::int64_t e = 0; e < c.moe->experts; ++e) {
    out.push_back(w.experts_down.from(e * matrix).data);
  }
}

}  // namespace

Bytes CudaExperts::workspace_bytes(const ModelConfig& config, std::int64_t tokens) {
  return kernels::moe::workspace_bytes(shape_of(config), tokens);
}

Result<CudaExperts> CudaExperts::create(const ModelConfig& config, const ModelWeights& weights,
                                        CudaWorkspace& workspace) {
  CudaExperts made;
  made.config_ = config;
  std::vector<const void*> tables;
  std::int64_t sparse = 0;
  for (const LayerWeights& layer : weights.layers) {
    made.table_of_layer_.push_back(layer.sparse ? sparse++ : -1);
    if (layer.sparse) append_tables(config, layer, tables);
  }
  CAUSEWAY_ASSIGN(made.tables_,
                  CudaArray<const void*>::make(workspace.device(), workspace.pieces(), tables));
  return std::move(made);
}

kernels::moe::ParamsCuda CudaExperts::params(const CudaExpertsStep& step) const {
  const std::int64_t table = table_of_layer_.at(static_cast<std::size_t>(step.layer));
  CAUSEWAY_CHECK(table >= 0, "not a sparse layer");
  const std::int64_t experts = config_.moe->experts;
  const void* const* begin = tables_->data() + table * 3 * experts;
  return {.shape = shape_of(config_),
          .tokens = step.tokens,
          .sm_count = step.sm_count,
          .normalise_top_k = config_.moe->normalise_top_k,
          .x = step.x,
          .scores = step.scores,
          .gate = begin,
          .up = begin + experts,
          .down = begin + 2 * experts,
          .residual = step.residual,
          .out = step.residual,
          .workspace = step.workspace,
          .experts_read = step.experts_read};
}

Status CudaExperts::run(const CudaExpertsStep& step, kernels::CudaStream stream) const {
  return kernels::moe::run(params(step), stream);
}

bool CudaExperts::front_fits(const CudaExpertsStep& step) const {
  return kernels::moe::front_fits(shape_of(config_), step.tokens, step.sm_count);
}

Status CudaExperts::run_with_front(const kernels::moe::FrontCuda& front,
                                   const CudaExpertsStep& step, kernels::CudaStream stream) const {
  return kernels::moe::run_with_front(front, params(step), stream);
}

}  // namespace causeway::model
