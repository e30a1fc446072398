#include "model/cuda_workspace.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda_status.cuh"
#include "model/cuda_experts.h"
#include "model/step_products.h"
#include "model/step_tables.h"

namespace causeway::model {
namespace {

constexpr Bytes kAlignment = Bytes(256);
constexpr std::int64_t kRowsMax = 65'535;  // blocks of a grid along y
constexpr Bytes kSampling = mib(8);        // of two steps, and the constants of some models

// Hands out one part after the other.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  template <typename T>
  T* take(Bytes bytes) {
    std::byte* const begin = base_ + end_.count;
    end_ = round_up(end_ + bytes, kAlignment);
    return reinterpret_cast<T*>(begin);
  }
  Bytes end() const { return end_; }

 private:
  std::byte* base_;
  Bytes end_;
};

// Without a base: how many bytes they take.
CudaActivations cut(const ModelConfig& c, const CudaStepLimits& limits, std::byte* base,
                    Bytes* bytes) {
  Cutter cutter(base);
  const auto bf16 = [&](std::int64_t columns) {
    return cutter.take<std::byte>(Bytes(2 * limits.rows * columns));
  };
  CudaActivations a;
  a.x = bf16(c.hidden);
  a.normed = bf16(c.hidden);
  a.qkv = bf16((c.heads + 2 * c.kv_heads) * c.head_dim);
  a.attended = bf16(c.heads * c.head_dim);
  a.active = bf16(c.intermediate);
  if (c.activation != kernels::activation::Gate::kSilu) a.gate_up = bf16(2 * c.intermediate);
  if (c.output_norms) a.added = bf16(c.hidden);
  if (c.moe) {
    a.scores = cutter.take<float>(Bytes(4 * limits.rows * c.moe->experts));
  }
  a.rope = cutter.take<float>(Bytes(4 * limits.rows * c.head_dim));
  if (c.local_rope_theta) a.local_rope = cutter.take<float>(Bytes(4 * limits.rows * c.head_dim));
  a.logits = cutter.take<float>(Bytes(4 * limits.slots * c.vocab));
  if (bytes != nullptr) *bytes = cutter.end();
  return a;
}

Bytes activation_bytes(const ModelConfig& c, const CudaStepLimits& limits) {
  Bytes bytes;
  cut(c, limits, nullptr, &bytes);
  return bytes;
}

}  // namespace

Status CudaNeeds::add(const ModelConfig& c, const CudaStepLimits& limits, int sm_count) {
  if (limits.rows < 1 || limits.rows > kRowsMax || limits.slots < 1) {
    return invalid_argument("a step on a GPU has between 1 and " + std::to_string(kRowsMax) +
                            " tokens, of as many sequences at most");
  }
  CAUSEWAY_ASSIGN(const Bytes products, linear_workspace(c, limits.rows, limits.slots, sm_count));
  const kernels::attention::Heads heads{c.heads, c.kv_heads, c.head_dim};
  models += 1;
  gemm = std::max(gemm, products);
  attention =
      std::max(attention, kernels::attention::workspace_bytes(heads, limits.slots, limits.rows));
  if (c.moe) experts = std::max(experts, CudaExperts::workspace_bytes(c, limits.rows));
  activations = std::max(activations, activation_bytes(c, limits));
  return {};
}

CudaWorkspace::Parts CudaWorkspace::parts_of(const CudaNeeds& needs, const CudaStepLimits& limits) {
  Parts parts;
  parts.gemm =
      round_up(Bytes(4 * table_elements_max(limits.rows, limits.slots, limits.frames)), kAlignment);
  parts.attention = round_up(parts.gemm + needs.gemm, kAlignment);
  parts.experts = round_up(parts.attention + needs.attention, kAlignment);
  parts.activations = round_up(parts.experts + needs.experts, kAlignment);
  parts.end = parts.activations + needs.activations;
  return parts;
}

Bytes CudaWorkspace::bytes_for(const CudaNeeds& needs, const CudaStepLimits& limits, Bytes extent) {
  const Parts parts = parts_of(needs, limits);
  // Two steps in flight have tables of their own, and what sampling reads beside them.
  return round_up(parts.end, extent) + round_up(parts.gemm * 2 + kSampling, extent);
}

Result<std::unique_ptr<CudaWorkspace>> CudaWorkspace::create(device::Device& device,
                                                             const ModelConfig& model,
                                                             const CudaStepLimits& limits,
                                                             int sm_count,
                                                             kernels::CudaStream stream) {
  CudaNeeds needs;
  CAUSEWAY_TRY(needs.add(model, limits, sm_count));
  return create(device, needs, limits, sm_count, stream);
}

Result<std::unique_ptr<CudaWorkspace>> CudaWorkspace::create(device::Device& device,
                                                             const CudaNeeds& needs,
                                                             const CudaStepLimits& limits,
                                                             int sm_count,
                                                             kernels::CudaStream stream) {
  const Parts parts = parts_of(needs, limits);
  CAUSEWAY_ASSIGN(auto library, kernels::gemm::CudaGemm::create());
  CAUSEWAY_ASSIGN(auto constants, ConstantCopier::make(device));
  auto made = std::make_unique<CudaWorkspace>(device, limits, sm_count, std::move(library),
                                              std::move(constants));
  made->parts_ = parts;
  CAUSEWAY_ASSIGN(made->extents_, device.arena().allocate(device.arena().extents_for(parts.end),
                                                          device::Arena::End::kHigh));
  CAUSEWAY_TRY(kernels::gemm::CudaGemm::prepare(made->gemm_workspace(), stream));
  CAUSEWAY_TRY(
      kernels::cuda_status(cudaMemsetAsync(made->attention_workspace(), 0,
                                           to_size(parts.experts - parts.attention), stream),
                           "clearing the kernels' workspaces"));
  if (parts.activations > parts.experts) {
    CAUSEWAY_TRY(kernels::moe::prepare(made->experts_workspace(), stream));
  }
  return made;
}

Status CudaWorkspace::check_room(const ModelConfig& model) const {
  CudaNeeds needs;
  CAUSEWAY_TRY(needs.add(model, limits_, sm_count_));
  const Parts needed = parts_of(needs, limits_);
  constexpr Bytes Parts::*kBounds[] = {&Parts::gemm, &Parts::attention, &Parts::experts,
                                       &Parts::activations, &Parts::end};
  for (std::size_t i = 1; i < std::size(kBounds); ++i) {
    const Bytes there = parts_.*kBounds[i] - parts_.*kBounds[i - 1];
    if (needed.*kBounds[i] - needed.*kBounds[i - 1] > there) {
      return invalid_argument(
          "the model is larger than those for which the GPU's memory was divided at the start: it "
          "came later, or its files have changed since; start the program anew");
    }
  }
  return {};
}

CudaActivations CudaWorkspace::activations(const ModelConfig& model) const {
  return cut(model, limits_, at(parts_.activations), nullptr);
}

}  // namespace causeway::model
