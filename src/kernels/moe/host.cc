#include "kernels/moe/moe.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/activation/activation.h"
#include "kernels/buffer.h"
#include "kernels/parallel.h"

namespace causeway::kernels::moe {

class Moe::State {
 public:
  void run(const Params& p, gemm::Gemm& gemm) {
    CAUSEWAY_CHECK(p.experts_per_token >= 1 && p.experts_per_token <= p.experts,
                   "a token chooses between 1 and all experts");
    choose(p, gemm);
    group(p);
    count(p);
    for (std::int64_t e = 0; e < p.experts; ++e) run_expert(p, e, gemm);
    combine(p);
  }

 private:
  void choose(const Params& p, gemm::Gemm& gemm) {
    float* scores = scores_.ensure(p.tokens * p.experts);
    gemm.run({.m = p.tokens,
              .n = p.experts,
              .k = p.hidden,
              .x = p.x,
              .x_stride = p.hidden,
              .w = p.router,
              .bias = {},
              .out = scores,
              .out_stride = p.experts,
              .variant = p.variant});
    const std::int64_t k = p.experts_per_token;
    chosen_.resize(static_cast<std::size_t>(p.tokens * k));
    weights_.resize(chosen_.size());
    parallel_ranges(p.tokens, 1 + (4 << 10) / p.experts, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        route({scores + t * p.experts, p.experts, k, p.normalise_top_k}, chosen_.data() + t * k,
              weights_.data() + t * k);
      }
    });
  }

  // A counting sort of all (token, choice) pairs by expert: place_[pair] is the pair's row in the
  // grouped matrices, and rows first_[e] … first_[e + 1] are expert e's.
  void group(const Params& p) {
    first_.assign(static_cast<std::size_t>(p.experts + 1), 0);
    for (const std::int32_t e : chosen_) ++first_[static_cast<std::size_t>(e) + 1];
    for (std::size_t e = 1; e < first_.size(); ++e) first_[e] += first_[e - 1];
    next_ = first_;
    place_.resize(chosen_.size());
    for (std::size_t pair = 0; pair < chosen_.size(); ++pair) {
      place_[pair] = next_[static_cast<std::size_t>(chosen_[pair])]++;
    }
    const auto pairs = static_cast<std::int64_t>(chosen_.size());
    float* x = x_.ensure(pairs * p.hidden);
    parallel_ranges(pairs, 1 + (16 << 10) / p.hidden, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        std::copy_n(p.x + pair / p.experts_per_token * p.hidden, p.hidden,
                    x + place_[static_cast<std::size_t>(pair)] * p.hidden);
      }
    });
    gate_up_.ensure(pairs * 2 * p.intermediate);
    active_.ensure(pairs * p.intermediate);
    out_.ensure(pairs * p.hidden);
  }

  void count(const Params& p) const {
    if (p.chosen == nullptr) return;
    for (const std::int32_t e : chosen_) p.chosen[e] += 1;
  }

  static WeightsRef gate_up_of(const Params& p, std::int64_t expert) {
    if (p.gate_up_of != nullptr) return {p.gate_up_of[expert], p.gate_up.dtype};
    return p.gate_up.from(expert * 2 * p.intermediate * p.hidden);
  }
  static WeightsRef down_of(const Params& p, std::int64_t expert) {
    if (p.down_of != nullptr) return {p.down_of[expert], p.down.dtype};
    return p.down.from(expert * p.hidden * p.intermediate);
  }

  void run_expert(const Params& p, std::int64_t expert, gemm::Gemm& gemm) {
    const std::int64_t first = first_[static_cast<std::size_t>(expert)];
    const std::int64_t rows = first_[static_cast<std::size_t>(expert) + 1] - first;
    if (rows == 0) return;
    const std::int64_t wide = 2 * p.intermediate;
    float* gate_up = gate_up_.data() + first * wide;
    float* active = active_.data() + first * p.intermediate;
    gemm.run({.m = rows,
              .n = wide,
              .k = p.hidden,
              .x = x_.data() + first * p.hidden,
              .x_stride = p.hidden,
              .w = gate_up_of(p, expert),
              .bias = {},
              .out = gate_up,
              .out_stride = wide,
              .variant = p.variant});
    activation::run({.rows = rows,
                     .size = p.intermediate,
                     .gate_up = gate_up,
                     .out = active,
                     .variant = p.variant});
    gemm.run({.m = rows,
              .n = p.hidden,
              .k = p.intermediate,
              .x = active,
              .x_stride = p.intermediate,
              .w = down_of(p, expert),
              .bias = {},
              .out = out_.data() + first * p.hidden,
              .out_stride = p.hidden,
              .variant = p.variant});
  }

  void combine(const Params& p) {
    const std::int64_t k = p.experts_per_token;
    const std::int64_t grain = 1 + (16 << 10) / (p.hidden * k);
    parallel_ranges(p.tokens, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        float* out = p.out + t * p.hidden;
        std::fill_n(out, p.hidden, 0.0f);
        for (std::int64_t pair = t * k; pair < (t + 1) * k; ++pair) {
          const float weight = weights_[static_cast<std::size_t>(pair)];
          const float* row = out_.data() + place_[static_cast<std::size_t>(pair)] * p.hidden;
          for (std::int64_t d = 0; d < p.hidden; ++d) out[d] += weight * row[d];
        }
      }
    });
  }

  Buffer<float> scores_, x_, gate_up_, active_, out_;
  std::vector<std::int32_t> chosen_;  // [tokens][k]
  std::vector<float> weights_;        // [tokens][k]
  std::vector<std::int64_t> first_, next_, place_;
};

Moe::Moe() : state_(std::make_unique<State>()) {}
Moe::~Moe() = default;
Moe::Moe(Moe&&) noexcept = default;
Moe& Moe::operator=(Moe&&) noexcept = default;

void Moe::run(const Params& params, gemm::Gemm& gemm) { state_->run(params, gemm); }

}  // namespace causeway::kernels::moe
