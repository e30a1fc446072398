#include "model/first_steps.h"

#include <algorithm>
#include <tuple>

#include "kernels/attention/attention_cuda.h"

namespace causeway::model {
namespace {

constexpr std::int64_t kPromptLeast = 16;  // shorter ones take the kernels of single tokens
constexpr std::int64_t kChunk = 128;       // of a prompt beside single tokens

StepShape decode_of(std::int64_t slots, bool small_batch, bool long_context) {
  return {.rows = slots,
          .slots = slots,
          .decode = slots,
          .sampled = slots,
          .small_batch = small_batch,
          .long_context = long_context};
}

StepShape prompt_of(std::int64_t rows, bool long_context) {
  return {.rows = rows, .slots = 1, .sampled = 1, .long_context = long_context};
}

auto numbers_of(const MoeConfig& moe) {
  return std::tie(moe.experts, moe.experts_per_token, moe.intermediate, moe.normalise_top_k,
                  moe.sparse_step, moe.dense_layers);
}

bool same_experts(const ModelConfig& a, const ModelConfig& b) {
  if (!a.moe || !b.moe) return a.moe.has_value() == b.moe.has_value();
  return numbers_of(*a.moe) == numbers_of(*b.moe);
}

// Sizes, and what a layer is made of. Numbers that kernels are given as arguments are left out.
auto form_of(const ModelConfig& c) {
  return std::tuple(
      std::tie(c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, c.head_dim, c.vocab,
               c.sliding_window, c.logn_context, c.global_layers, c.rotary_dim),
      std::tuple(c.local_rope_theta.has_value(), c.attention_cap > 0, c.logit_cap > 0,
                 c.activation),
      std::tie(c.tied_embeddings, c.qk_norm, c.attention_bias, c.output_bias, c.mlp_bias,
               c.norm_offset, c.output_norms));
}

}  // namespace

std::vector<StepShape> first_steps(std::int64_t rows, std::span<const std::int64_t> buckets,
                                   std::int64_t plain_context) {
  using kernels::attention::kSmallBatchSequences;
  std::vector<StepShape> shapes;
  const auto decode = [&](std::int64_t slots) {
    if (slots <= kSmallBatchSequences) shapes.push_back(decode_of(slots, true, false));
    shapes.push_back(decode_of(slots, false, false));
  };
  const auto prompt = [&](std::int64_t tokens) {
    shapes.push_back(prompt_of(tokens, tokens > plain_context));
  };
  if (!buckets.empty()) decode(buckets.front());
  for (std::int64_t tokens = kPromptLeast; tokens < rows; tokens *= 2) prompt(tokens);
  if (rows > 1) prompt(rows);
  const std::int64_t chunk = std::min(kChunk, rows - 1);
  for (const bool small_batch : {true, false}) {
    if (chunk < 1 || buckets.empty() || buckets.back() < 2) break;
    shapes.push_back(
        {.rows = chunk + 1, .slots = 2, .decode = 1, .sampled = 2, .small_batch = small_batch});
  }
  for (const std::int64_t slots : buckets) {
    if (slots != buckets.front()) decode(slots);
  }
  if (plain_context != kNoWindow && !buckets.empty()) {
    shapes.push_back(decode_of(buckets.front(), false, true));
  }
  return shapes;
}

bool same_kernels(const ModelConfig& a, const ModelConfig& b) {
  return form_of(a) == form_of(b) && same_experts(a, b);
}

}  // namespace causeway::model
