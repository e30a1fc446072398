#include "model/forward.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/buffer.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gemm/gemm.h"
#include "kernels/moe/moe.h"
#include "kernels/parallel.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/soft_cap/soft_cap.h"
#include "model/layers.h"
#include "model/model_card.h"

namespace causeway::model {
namespace {

using kernels::Buffer;
using kernels::WeightsRef;

constexpr Nanos kStagedMax = seconds(600);  // until a group must be there

kernels::attention::PagedKv paged(const KvMemory& kv, std::int64_t layer) {
  return {.base = kv.base,
          .frame_bytes = kv.layout.frame,
          .key_offset = kv.layout.key_offset(layer),
          .value_offset = kv.layout.kv_stride,
          .token_stride = kv.layout.token_stride,
          .block_tokens = kv.layout.tokens.count,
          .dtype = kv.dtype};
}

// target += addend, [count].
void add(const float* addend, std::int64_t count, float* target) {
  constexpr std::int64_t kElementsPerThread = 32 << 10;
  kernels::parallel_ranges(count, kElementsPerThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) target[i] += addend[i];
  });
}

}  // namespace

// What a step needs beside the weights: where each sequence's tokens are, and which rows are
// wanted.
class HostForward::State {
 public:
  State(ModelConfig config, const weights::PlacedWeights& cached,
        const weights::PlacedWeights& home, const weights::ExpertSlots& slots)
      : config_(std::move(config)),
        cached_(find_weights(config_, cached)),
        home_(find_weights(config_, home)),
        slots_(slots),
        frequencies_(rope_frequencies(config_)),
        local_frequencies_(local_rope_frequencies(config_)) {
    if (slots_.base == nullptr) return;
    const auto experts = static_cast<std::size_t>(config_.moe->experts);
    gate_up_of_.resize(experts);
    down_of_.resize(experts);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      chosen_.resize(chosen_.size() + (config_.is_sparse(i) ? experts : 0));
    }
  }

  const ModelConfig& config() const { return config_; }
  std::span<const float> hidden() const {
    return {normed_.data(), sampled_.size() * static_cast<std::size_t>(config_.hidden)};
  }
  std::span<const std::uint32_t> experts_chosen() const { return chosen_; }

  Status run(const request::Batch& batch, const KvMemory& kv, weights::StepWeights where,
             std::span<float> logits, std::unique_lock<std::mutex>* computing) {
    computing_ = computing;
    begin(batch);
    CAUSEWAY_CHECK(logits.size() == sampled_.size() * static_cast<std::size_t>(config_.vocab),
                   "logits are [rows that need some, vocab]");
    where_ = where;
    std::fill(chosen_.begin(), chosen_.end(), 0);
    layer_of_experts_ = 0;
    kernels::embedding::run({.table = gathered(),
                             .vocab = config_.vocab,
                             .size = config_.hidden,
                             .tokens = batch.tokens,
                             .scale = config_.embedding_scale(),
                             .out = x_.data()});
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      CAUSEWAY_ASSIGN(const ModelWeights* weights, of_group(layer_group(i)));
      const LayerWeights& layer = weights->layers[static_cast<std::size_t>(i)];
      attend(layer, i, paged(kv, i));
      feed_forward(layer, i);
      consumed(layer_group(i));
    }
    CAUSEWAY_TRY(sampled_.empty() ? Status() : head(logits.data()));
    consumed(head_group(config_));
    return {};
  }

 private:
  // The embedding as rows are gathered from it: where it is, also when the head waits for it.
  WeightsRef gathered() const {
    const bool cached =
        where_.empty() || where_[kEmbeddingGroup].place == weights::WeightPlace::kCached;
    return cached ? cached_.embedding : home_.embedding;
  }
  // Where the step reads a group; waits until it is there.
  Result<const ModelWeights*> of_group(int group) const {
    if (where_.empty()) return &cached_;
    const weights::WeightView& view = where_[static_cast<std::size_t>(group)];
    if (view.place == weights::WeightPlace::kHome) return &home_;
    if (view.place == weights::WeightPlace::kStaged) {
      if (computing_ != nullptr) computing_->unlock();
      const Status there = view.ready->wait(view.value, kStagedMax);
      if (computing_ != nullptr) computing_->lock();
      CAUSEWAY_TRY(there);
    }
    return &cached_;
  }
  // The step reads the group no more.
  void consumed(int group) const {
    if (where_.empty()) return;
    const weights::WeightView& view = where_[static_cast<std::size_t>(group)];
    if (view.consumed != nullptr) view.consumed->raise(view.consumed_value);
  }

  // Shapes of one layer's activations.
  std::int64_t q_size() const { return config_.heads * config_.head_dim; }
  std::int64_t kv_size() const { return config_.kv_heads * config_.head_dim; }
  std::int64_t qkv_size() const { return q_size() + 2 * kv_size(); }

  void begin(const request::Batch& batch) {
    tokens_ = static_cast<std::int64_t>(batch.tokens.size());
    CAUSEWAY_CHECK(tokens_ > 0, "a step of no tokens");
    positions_.assign(batch.tokens.size(), 0);
    sequences_.clear();
    sampled_.clear();
    for (const request::BatchEntry& entry : batch.entries) place(batch, entry);
    const std::int64_t table_size = tokens_ * config_.head_dim;
    kernels::rope::fill_table({.frequencies = frequencies_,
                               .size = config_.head_dim,
                               .amplitude = rope_amplitude(config_)},
                              positions_, rope_.ensure(table_size));
    if (!local_frequencies_.empty()) {
      kernels::rope::fill_table({.frequencies = local_frequencies_, .size = config_.head_dim},
                                positions_, local_rope_.ensure(table_size));
    }
    x_.ensure(tokens_ * config_.hidden);
    normed_.ensure(tokens_ * config_.hidden);
    added_.ensure(tokens_ * config_.hidden);
    qkv_.ensure(tokens_ * qkv_size());
    attended_.ensure(tokens_ * q_size());
    if (config_.intermediate > 0) {
      gate_up_.ensure(tokens_ * 2 * config_.intermediate);
      active_.ensure(tokens_ * config_.intermediate);
    }
  }

  void place(const request::Batch& batch, const request::BatchEntry& entry) {
    const std::int64_t token_end = std::int64_t{entry.token_begin} + entry.token_count;
    const std::int64_t frame_end = std::int64_t{entry.frame_begin} + entry.frame_count;
    CAUSEWAY_CHECK(entry.token_begin >= 0 && entry.token_count > 0 && token_end <= tokens_,
                   "an entry's tokens are not in the batch");
    CAUSEWAY_CHECK(entry.frame_begin >= 0 && entry.frame_count > 0 &&
                       frame_end <= static_cast<std::int64_t>(batch.frames.size()),
                   "an entry's frames are not in the batch");
    for (std::int32_t i = 0; i < entry.token_count; ++i) {
      positions_[static_cast<std::size_t>(entry.token_begin + i)] = std::int64_t{entry.context} + i;
    }
    const auto frames = std::span(batch.frames)
                            .subspan(static_cast<std::size_t>(entry.frame_begin),
                                     static_cast<std::size_t>(entry.frame_count));
    sequences_.push_back({.frames = frames,
                          .query_begin = entry.token_begin,
                          .query_count = entry.token_count,
                          .context = entry.context});
    for (std::int64_t i = 0; i < std::ssize(entry.scored); ++i) {
      sampled_.push_back(entry.token_begin + i);
    }
    if (entry.samples) sampled_.push_back(token_end - 1);
  }

  float norm_offset() const { return config_.norm_offset ? 1 : 0; }

  void norm(const float* x, std::int64_t rows, WeightsRef weight, float* out) const {
    kernels::rms_norm::run({.outer = rows,
                            .size = config_.hidden,
                            .x = x,
                            .x_outer_stride = config_.hidden,
                            .weight = weight,
                            .offset = norm_offset(),
                            .epsilon = static_cast<float>(config_.norm_epsilon),
                            .out = out,
                            .out_outer_stride = config_.hidden});
  }

  // out [tokens][n] = x [tokens][k] · wᵀ + bias
  struct Linear {
    const float* x;
    std::int64_t k;
    WeightsRef w;
    WeightsRef bias;
    std::int64_t n;
    float* out;
  };
  void linear(const Linear& l, std::int64_t rows) {
    gemm_.run({.m = rows,
               .n = l.n,
               .k = l.k,
               .x = l.x,
               .x_stride = l.k,
               .w = l.w,
               .bias = l.bias,
               .out = l.out,
               .out_stride = l.n});
  }

  // RMS norm of each head of q or k, in place.
  void norm_heads(std::int64_t first, std::int64_t heads, WeightsRef weight) {
    if (!weight) return;
    float* x = qkv_.data() + first;
    kernels::rms_norm::run({.outer = tokens_,
                            .inner = heads,
                            .size = config_.head_dim,
                            .x = x,
                            .x_outer_stride = qkv_size(),
                            .weight = weight,
                            .offset = norm_offset(),
                            .epsilon = static_cast<float>(config_.norm_epsilon),
                            .out = x,
                            .out_outer_stride = qkv_size()});
  }

  // x += what a sublayer adds, normalised first where there is a weight for that.
  void add_to_stream(WeightsRef output_norm) {
    if (output_norm) norm(added_.data(), tokens_, output_norm, added_.data());
    add(added_.data(), tokens_ * config_.hidden, x_.data());
  }

  // Logn attention: of tokens beyond the context queries are multiplied.
  void scale_queries() {
    kernels::parallel_ranges(tokens_, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const float factor = config_.query_factor(positions_[static_cast<std::size_t>(t)]);
        if (factor == 1) continue;
        float* const q = qkv_.data() + t * qkv_size();
        for (std::int64_t i = 0; i < q_size(); ++i) q[i] *= factor;
      }
    });
  }

  // x += o(attention(rope(qkv(norm(x)))))
  void attend(const LayerWeights& w, std::int64_t layer, const kernels::attention::PagedKv& kv) {
    norm(x_.data(), tokens_, w.input_norm, normed_.data());
    float* qkv = qkv_.data();
    linear({normed_.data(), config_.hidden, w.qkv, w.qkv_bias, qkv_size(), qkv}, tokens_);
    norm_heads(0, config_.heads, w.q_norm);
    norm_heads(q_size(), config_.kv_heads, w.k_norm);
    const bool is_local = config_.is_local(layer) && !local_frequencies_.empty();
    kernels::rope::run({.tokens = tokens_,
                        .heads = config_.heads + config_.kv_heads,
                        .size = config_.head_dim,
                        .table = is_local ? local_rope_.data() : rope_.data(),
                        .x = qkv,
                        .x_stride = qkv_size()});
    if (config_.logn_context > 0) scale_queries();
    const kernels::attention::Heads heads{config_.heads, config_.kv_heads, config_.head_dim};
    kernels::attention::write_kv({.kv = kv,
                                  .heads = heads,
                                  .sequences = sequences_,
                                  .k = qkv + q_size(),
                                  .v = qkv + q_size() + kv_size(),
                                  .stride = qkv_size()});
    const float scale = attention_scale(config_);
    attention_.run({.kv = kv,
                    .heads = heads,
                    .sequences = sequences_,
                    .scale = scale,
                    .q = qkv,
                    .q_stride = qkv_size(),
                    .out = attended_.data(),
                    .out_stride = q_size(),
                    .window = config_.window_of(layer),
                    .cap = static_cast<float>(config_.attention_cap)});
    linear({attended_.data(), q_size(), w.o, w.o_bias, config_.hidden, added_.data()}, tokens_);
    add_to_stream(w.attention_norm);
  }

  // x += mlp(norm(x))
  void feed_forward(const LayerWeights& w, std::int64_t layer) {
    norm(x_.data(), tokens_, w.post_norm, normed_.data());
    if (w.sparse) {
      mix_experts(w, layer);
    } else {
      const std::int64_t wide = config_.intermediate;
      linear({normed_.data(), config_.hidden, w.gate_up, w.gate_up_bias, 2 * wide, gate_up_.data()},
             tokens_);
      kernels::activation::run({.rows = tokens_,
                                .size = wide,
                                .gate_up = gate_up_.data(),
                                .out = active_.data(),
                                .gate = config_.activation});
      linear({active_.data(), wide, w.down, w.down_bias, config_.hidden, added_.data()}, tokens_);
    }
    add_to_stream(w.mlp_norm);
  }

  void mix_experts(const LayerWeights& w, std::int64_t layer) {
    kernels::moe::Params params{.tokens = tokens_,
                                .hidden = config_.hidden,
                                .intermediate = config_.moe->intermediate,
                                .experts = config_.moe->experts,
                                .experts_per_token = config_.moe->experts_per_token,
                                .normalise_top_k = config_.moe->normalise_top_k,
                                .x = normed_.data(),
                                .router = w.router,
                                .gate_up = w.experts_gate_up,
                                .down = w.experts_down,
                                .out = added_.data()};
    if (slots_.base != nullptr) find_experts(layer, params);
    moe_.run(params, gemm_);
  }

  // Where the step was told that the layer's experts are.
  void find_experts(std::int64_t layer, kernels::moe::Params& params) {
    const LayerWeights& home = home_.layers[static_cast<std::size_t>(layer)];
    const std::span<const std::int32_t> slots =
        where_[static_cast<std::size_t>(layer_group(layer))].slots;
    const std::int64_t matrix = config_.moe->intermediate * config_.hidden;
    for (std::size_t e = 0; e < gate_up_of_.size(); ++e) {
      const auto expert = static_cast<std::int64_t>(e);
      const bool cached = slots[e] >= 0;
      const std::byte* const slot = cached ? slots_.slot(slots[e]) : nullptr;
      gate_up_of_[e] = cached ? slot : home.experts_gate_up.from(2 * matrix * expert).data;
      down_of_[e] =
          cached ? slot + slots_.gate_up.count : home.experts_down.from(matrix * expert).data;
    }
    params.gate_up = home.experts_gate_up;
    params.down = home.experts_down;
    params.gate_up_of = gate_up_of_.data();
    params.down_of = down_of_.data();
    params.chosen = chosen_.data() + layer_of_experts_++ * config_.moe->experts;
  }

  // logits of the sampled rows only.
  Status head(float* logits) {
    CAUSEWAY_ASSIGN(const ModelWeights* weights, of_group(head_group(config_)));
    const WeightsRef norm_weight = weights->norm;
    if (config_.tied_embeddings) {
      CAUSEWAY_ASSIGN(weights, of_group(kEmbeddingGroup));
    }
    const auto rows = static_cast<std::int64_t>(sampled_.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* row = x_.data() + sampled_[static_cast<std::size_t>(i)] * config_.hidden;
      norm(row, 1, norm_weight, normed_.data() + i * config_.hidden);
    }
    linear({normed_.data(), config_.hidden, weights->lm_head, {}, config_.vocab, logits}, rows);
    if (config_.logit_cap > 0) {
      kernels::soft_cap::run({.x = logits,
                              .count = rows * config_.vocab,
                              .cap = static_cast<float>(config_.logit_cap)});
    }
    return {};
  }

  ModelConfig config_;
  const ModelWeights cached_;
  const ModelWeights home_;
  const weights::ExpertSlots slots_;                     // no base: experts lie with their layers
  std::vector<double> frequencies_, local_frequencies_;  // the latter empty: all layers are alike

  // What belongs to the step that runs.
  weights::StepWeights where_;
  std::unique_lock<std::mutex>* computing_ = nullptr;  // of the step, if its caller has one
  std::int64_t tokens_ = 0;
  std::vector<std::int64_t> positions_;                  // [tokens]
  std::vector<kernels::attention::Sequence> sequences_;  // [entries]
  std::vector<std::int64_t> sampled_;                    // rows whose logits are wanted
  // With slots: of one layer, by expert; and of all layers that have experts.
  std::vector<const std::byte*> gate_up_of_, down_of_;
  std::vector<std::uint32_t> chosen_;  // [layers][experts]
  std::int64_t layer_of_experts_ = 0;  // the next

  Buffer<float> rope_, local_rope_;  // [tokens][head_dim]
  Buffer<float> x_;                  // [tokens][hidden], the residual stream
  Buffer<float> normed_;             // [tokens][hidden]
  Buffer<float> added_;              // [tokens][hidden], what a sublayer adds
  Buffer<float> qkv_;                // [tokens][q heads, k heads, v heads][head_dim]
  Buffer<float> attended_;           // [tokens][heads][head_dim]
  Buffer<float> gate_up_;            // [tokens][gate of intermediate, up of intermediate]
  Buffer<float> active_;             // [tokens][intermediate]
  kernels::gemm::Gemm gemm_;
  kernels::attention::Attention attention_;
  kernels::moe::Moe moe_;
};

HostForward::HostForward(ModelConfig config, const weights::PlacedWeights& cached,
                         const weights::PlacedWeights& home)
    : HostForward(std::move(config), cached, home, {}) {}
HostForward::HostForward(ModelConfig config, const weights::PlacedWeights& cached,
                         const weights::PlacedWeights& home, const weights::ExpertSlots& slots)
    : state_(std::make_unique<State>(std::move(config), cached, home, slots)) {}
HostForward::~HostForward() = default;
HostForward::HostForward(HostForward&&) noexcept = default;
HostForward& HostForward::operator=(HostForward&&) noexcept = default;

const ModelConfig& HostForward::config() const { return state_->config(); }
std::span<const float> HostForward::hidden() const { return state_->hidden(); }
std::span<const std::uint32_t> HostForward::experts_chosen() const {
  return state_->experts_chosen();
}

Status HostForward::run(const request::Batch& batch, const KvMemory& kv, weights::StepWeights where,
                        std::span<float> logits, std::unique_lock<std::mutex>* computing) {
  try {
    return state_->run(batch, kv, where, logits, computing);
  } catch (const std::bad_alloc&) {
    return exhausted("the forward pass of " + std::to_string(batch.tokens.size()) +
                     " tokens found no memory for its activations: lower the step's token budget");
  }
}

}  // namespace causeway::model
