#include "model/cuda_experts.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/small_copy/small_copy.h"

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
                                        const weights::ExpertSlots& slots,
                                        CudaWorkspace& workspace) {
  CudaExperts made;
  made.config_ = config;
  made.slots_ = slots;
  for (const LayerWeights& layer : weights.layers) {
    made.table_of_layer_.push_back(layer.sparse ? made.tables_count_++ : -1);
    if (layer.sparse) append_tables(config, layer, made.home_);
  }
  CAUSEWAY_ASSIGN(made.tables_, workspace.constant(std::as_bytes(std::span(made.home_))));
  if (made.moves()) CAUSEWAY_TRY(made.make_movable(workspace));
  return made;
}

Status CudaExperts::make_movable(CudaWorkspace& workspace) {
  device::Device& device = workspace.device();
  const auto tables = std::as_bytes(std::span(home_));
  CAUSEWAY_ASSIGN(mirror_,
                  device::CudaPinned::make(device, "where experts are", Bytes(std::ssize(tables))));
  std::copy(tables.begin(), tables.end(), mirror_.data());
  const auto experts = static_cast<std::size_t>(tables_count_ * config_.moe->experts);
  shown_.assign(experts, -1);
  chosen_before_.assign(experts, 0);
  const auto chosen = std::as_bytes(std::span(chosen_before_));
  CAUSEWAY_ASSIGN(chosen_, workspace.constant(chosen));
  CAUSEWAY_ASSIGN(chosen_mirror_, device::CudaPinned::make(device, "which experts were chosen",
                                                           Bytes(std::ssize(chosen))));
  return {};
}

void CudaExperts::place(std::int64_t layer, std::span<const std::int32_t> slots) {
  const std::int64_t table = table_of_layer_.at(static_cast<std::size_t>(layer));
  if (table < 0) return;
  const std::int64_t experts = config_.moe->experts;
  CAUSEWAY_CHECK(std::ssize(slots) == experts, "a step says where every expert is");
  const Bytes matrix = size_of(DType::kBF16) * (config_.moe->intermediate * config_.hidden);
  std::int32_t* const shown = shown_.data() + table * experts;
  auto* const mirror = reinterpret_cast<const void**>(mirror_.data()) + table * 3 * experts;
  const void* const* const home = home_.data() + table * 3 * experts;
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::int32_t slot = slots[static_cast<std::size_t>(e)];
    if (std::exchange(shown[e], slot) == slot) continue;
    changed_ = true;
    for (int w = 0; w < 3; ++w) {
      const std::int64_t at = w * experts + e;
      mirror[at] = slot < 0 ? home[at] : slots_.slot(slot) + (matrix * w).count;
    }
  }
}

Status CudaExperts::bring(kernels::CudaStream stream) {
  if (!changed_) return {};
  CAUSEWAY_TRY(
      kernels::small_copy::run({.target = tables_.data(),
                                .source = mirror_.data(),
                                .bytes = Bytes(std::ssize(std::as_bytes(std::span(home_))))},
                               stream));
  changed_ = false;
  return {};
}

Status CudaExperts::fetch_chosen(kernels::CudaStream stream) {
  return kernels::small_copy::run({.target = chosen_mirror_.data(),
                                   .source = chosen_.data(),
                                   .bytes = Bytes(std::ssize(chosen_before_) * 4)},
                                  stream);
}

std::vector<std::uint32_t> CudaExperts::take_chosen() {
  std::vector<std::uint32_t> chosen(chosen_before_.size());
  const auto* const all = reinterpret_cast<const std::uint32_t*>(chosen_mirror_.data());
  for (std::size_t e = 0; e < chosen.size(); ++e) {
    chosen[e] = all[e] - std::exchange(chosen_before_[e], all[e]);
  }
  return chosen;
}

kernels::moe::ParamsCuda CudaExperts::params(const CudaExpertsStep& step) const {
  const std::int64_t table = table_of_layer_.at(static_cast<std::size_t>(step.layer));
  CAUSEWAY_CHECK(table >= 0, "not a sparse layer");
  const std::int64_t experts = config_.moe->experts;
  const void* const* begin =
      reinterpret_cast<const void* const*>(tables_.data()) + table * 3 * experts;
  auto* const chosen = moves() ? reinterpret_cast<std::uint32_t*>(chosen_.data()) : nullptr;
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
          .experts_read = step.experts_read,
          .chosen = chosen != nullptr ? chosen + table * experts : nullptr};
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
