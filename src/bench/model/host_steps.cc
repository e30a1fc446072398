#include "bench/model/host_steps.h"

#include "bench/model/bench_batch.h"
#include "kernels/testing/random_bf16.h"

namespace causeway::model {

Result<std::unique_ptr<HostSteps>> HostSteps::create(const ModelConfig& config,
                                                     const Limits& limits,
                                                     device::HostMemory& memory) {
  auto steps = std::make_unique<HostSteps>(config, limits, memory);
  CAUSEWAY_TRY(steps->prepare());
  return steps;
}

Status HostSteps::prepare() {
  CAUSEWAY_ASSIGN(placed_, weights::lay_out(plan_weights(config_, host_dtype(config_.dtype))));
  CAUSEWAY_ASSIGN(kv_.layout, bench_layout(config_));
  kv_.dtype = DType::kBF16;
  const Bytes weight_bytes = round_up(placed_.bytes, weights::kGroupAlignment);
  const Bytes bytes = weight_bytes + kv_.layout.frame * limits_.frames;
  CAUSEWAY_ASSIGN(region_, memory_.allocate({.name = "bench-steps", .bytes = bytes}));
  const auto all = memory_.resolve({.region = region_, .offset = Bytes(0)}, bytes);
  weights_ = all.first(to_size(weight_bytes));
  const auto kv = all.subspan(to_size(weight_bytes));
  kv_.base = kv.data();
  kernels::testing::fill_random_bf16(weights_, 3, 0.01f);
  kernels::testing::fill_random_bf16(kv, 5, 0.5f);
  forward_ =
      std::make_unique<HostForward>(config_, weights::PlacedWeights{&placed_, weights_.data()});
  logits_.resize(static_cast<std::size_t>(config_.vocab * limits_.sequences));
  return {};
}

HostSteps::~HostSteps() {
  forward_.reset();
  if (region_.valid()) (void)memory_.release(region_);
}

Status HostSteps::run(const request::Batch& batch) {
  const auto rows = static_cast<std::size_t>(batch.logit_rows());
  return forward_->run(batch, kv_,
                       std::span(logits_).first(rows * static_cast<std::size_t>(config_.vocab)));
}

}  // namespace causeway::model
