#include "model/cuda_forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/sampling/sampling_cuda.h"
#include "model/cuda_array.h"
#include "model/cuda_experts.h"
#include "model/cuda_graphs.h"
#include "model/cuda_linear.h"
#include "model/layers.h"
#include "model/model_card.h"

namespace causeway::model {
namespace {

using kernels::WeightsRef;
using kernels::gemm::CudaShare;

CudaShare other(CudaShare share) {
  return share == CudaShare::kLess ? CudaShare::kMore : CudaShare::kLess;
}

// A stream takes some thousand operations; a launch behind them would hold up the driver, and with
// it the copies that the stream waits for. So no more layers than these are enqueued behind a wait.
constexpr std::int64_t kLayersAhead = 8;
constexpr std::int64_t kShapesMax = 65'536;  // that are remembered
constexpr Nanos kStagedMax = seconds(60);    // until a group must be there

constexpr std::int64_t kGraphPlacesMax = 256;  // a graph takes memory: larger steps come seldom

Status check_served(const ModelConfig& c, DType dtype) {
  if (dtype != DType::kBF16) {
    return unsupported("weights on a GPU are BF16, not " + std::string(name_of(dtype)));
  }
  if (c.hidden % 8 != 0 || c.head_dim % 8 != 0 || c.intermediate % 8 != 0) {
    return unsupported("on a GPU hidden, head and MLP sizes must be multiples of 8");
  }
  if (c.hidden > 32'768 || c.head_dim > 512 || c.vocab > kernels::sampling::kVocabMax) {
    return unsupported("on a GPU hidden is at most 32768, a head 512 and the vocabulary " +
                       std::to_string(kernels::sampling::kVocabMax));
  }
  if (c.moe && (c.moe->experts > 512 || c.moe->experts_per_token > 32)) {
    return unsupported("on a GPU a layer has at most 512 experts, of which a token chooses 32");
  }
  if (c.moe && (c.hidden % 32 != 0 || c.moe->intermediate % 32 != 0)) {
    return unsupported("on a GPU the sizes of experts must be multiples of 32");
  }
  return {};
}

}  // namespace

class CudaForward::State {
 public:
  State(ModelConfig config, const CudaWeights& weights, CudaWorkspace& workspace,
        const CudaForwardOptions& options)
      : config_(std::move(config)),
        weights_(find_weights(config_, weights.cached)),
        experts_at_(weights.slots.base != nullptr ? find_weights(config_, weights.home) : weights_),
        slots_(weights.slots),
        embedding_home_(weights.home.base != nullptr
                            ? weights.home.tensor("embedding", "embedding").data
                            : nullptr),
        workspace_(workspace),
        options_(options),
        a_(workspace.activations(config_)) {}

  Status upload_constants() {
    CAUSEWAY_ASSIGN(frequencies_, CudaArray<double>::make(workspace_.device(), workspace_.pieces(),
                                                          rope_frequencies(config_)));
    if (!config_.moe) return {};
    CAUSEWAY_ASSIGN(experts_, CudaExperts::create(config_, experts_at_, slots_, workspace_));
    return {};
  }

  const ModelConfig& config() const { return config_; }
  const float* logits() const { return a_.logits; }
  std::vector<std::uint32_t> take_experts_chosen() {
    return experts_ && experts_->moves() ? experts_->take_chosen() : std::vector<std::uint32_t>();
  }

  Status run(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
             kernels::CudaStream stream) {
    CAUSEWAY_TRY(begin(shape, kv, weights, stream));
    // All sample in a padded step; a step of single tokens that is not padded comes once.
    const bool again =
        shape.decode_only() && shape.sampled == shape.places && shape.places <= kGraphPlacesMax;
    if (!options_.graphs || !again || !settled(weights.where)) return enqueue();
    if (kv.base != captured_kv_) graphs_.drop();
    captured_kv_ = kv.base;
    // The embedding stays where it is until its group has come.
    const std::int64_t at_home = embedding() == weights_.embedding.data ? 0 : 1;
    return graphs_.run((shape.places * 2 + (shape.brief ? 1 : 0)) * 2 + at_home,
                       [this] { return enqueue(); }, stream);
  }

  Status begin(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
               kernels::CudaStream stream) {
    const CudaStepLimits& limits = workspace_.limits();
    if (shape.rows > limits.rows || shape.places > limits.places) {
      return invalid_argument("a step of " + std::to_string(shape.rows) + " tokens of " +
                              std::to_string(shape.places) + " sequences exceeds the workspace's " +
                              std::to_string(limits.rows) + " of " + std::to_string(limits.places));
    }
    shape_ = shape;
    kv_ = kv;
    stream_ = stream;
    reads_ = weights;
    tables_ = workspace_.tables();
    at_ = offsets_of(shape);
    return {};
  }

  Status run_range(const StepRange& range) {
    if (range.front) CAUSEWAY_TRY(front());
    for (std::int64_t i = range.first; i < range.end; ++i) CAUSEWAY_TRY(layer(i));
    if (!range.head) return {};
    layers_ahead_ = kLayersAhead;  // all of it is there
    if (shape_.sampled > 0) CAUSEWAY_TRY(head());
    if (experts_ && experts_->moves()) CAUSEWAY_TRY(experts_->fetch_chosen(stream_));
    return consumed(head_group(config_));
  }

 private:
  std::int64_t q_size() const { return config_.heads * config_.head_dim; }
  std::int64_t qkv_size() const {
    return (config_.heads + 2 * config_.kv_heads) * config_.head_dim;
  }
  const std::int32_t* table(std::int64_t offset) const { return tables_ + offset; }

  // Whether nothing that the step reads is still on its way.
  static bool settled(weights::StepWeights where) {
    return std::none_of(where.begin(), where.end(), [](const weights::WeightView& view) {
      return view.place == weights::WeightPlace::kStaged;
    });
  }
  // Before the first kernel that reads the group. Kernels that start before the one in front ends
  // do not start before a wait that stands between the two.
  Status await_group(int group) {
    if (reads_.where.empty()) return {};
    const weights::WeightView& view = reads_.where[static_cast<std::size_t>(group)];
    CAUSEWAY_CHECK(view.place != weights::WeightPlace::kHome, "a group is not where it is read");
    if (view.place == weights::WeightPlace::kCached) return {};
    return reads_.steps->wait(*view.ready, view.value);
  }
  // Behind the last kernel that reads the group.
  Status consumed(int group) {
    if (reads_.where.empty()) return {};
    const weights::WeightView& view = reads_.where[static_cast<std::size_t>(group)];
    if (view.consumed == nullptr) return {};
    return reads_.steps->signal(*view.consumed, view.consumed_value);
  }
  // Returns, on the host, when the group is there.
  Status wait_for_group(int group) const {
    if (reads_.where.empty()) return {};
    const weights::WeightView& view = reads_.where[static_cast<std::size_t>(group)];
    if (view.place != weights::WeightPlace::kStaged) return {};
    return view.ready->wait(view.value, kStagedMax).with_context("weights on their way");
  }
  Status keep_close(std::int64_t layer) const {
    return layer < layers_ahead_ ? Status() : wait_for_group(layer_group(layer - layers_ahead_));
  }
  // Its rows are gathered, and may be where they are.
  const std::byte* embedding() const {
    if (reads_.where.empty() ||
        reads_.where[kEmbeddingGroup].place == weights::WeightPlace::kCached) {
      return weights_.embedding.data;
    }
    CAUSEWAY_CHECK(embedding_home_ != nullptr, "the embedding has no home to be read at");
    return embedding_home_;
  }

  // The first use of a kernel loads it, which may wait for all that the GPU has to do: then nothing
  // of that may wait for a copy that is still to be made. So steps of a shape that has not run yet
  // are enqueued as their weights arrive.
  Status enqueue() {
    const std::array<std::int64_t, 4> shape = {shape_.rows, shape_.decode, shape_.sampled,
                                               shape_.brief ? 1 : 0};
    layers_ahead_ = shapes_run_.contains(shape) ? kLayersAhead : 0;
    CAUSEWAY_TRY(enqueue_layers());
    if (std::ssize(shapes_run_) < kShapesMax) shapes_run_.insert(shape);
    return {};
  }

  Status enqueue_layers() {
    CAUSEWAY_TRY(front());
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      CAUSEWAY_TRY(keep_close(i));
      CAUSEWAY_TRY(layer(i));
    }
    return shape_.sampled > 0 ? head() : Status();
  }

  // What stands before the layers.
  Status front() {
    pending_ = nullptr;
    spent_ = {};
    in_front_ = behind_others();
    if (experts_ && experts_->moves()) CAUSEWAY_TRY(move_experts());
    CAUSEWAY_TRY(kernels::attention::plan(attention_params(0, nullptr), stream_));
    // These two let nothing behind them start before they have waited for what is in front: plan
    // and table, which attention reads early, are complete when the first layer's product starts.
    CAUSEWAY_TRY(kernels::rope::fill_table({.tokens = shape_.rows,
                                            .size = config_.head_dim,
                                            .frequencies = frequencies_.data(),
                                            .position = table(at_.position),
                                            .out = a_.rope},
                                           stream_));
    return kernels::embedding::run({.table = embedding(),
                                    .table_rows = config_.vocab,
                                    .size = config_.hidden,
                                    .index = table(at_.token),
                                    .count = shape_.rows,
                                    .out = a_.x},
                                   stream_);
  }

  // To where the step was told that they are.
  Status move_experts() {
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      experts_->place(i, reads_.where[static_cast<std::size_t>(layer_group(i))].slots);
    }
    return experts_->bring(stream_);
  }

  Status layer(std::int64_t i) {
    CAUSEWAY_TRY(await_group(layer_group(i)));
    const LayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
    CAUSEWAY_TRY(attend(layer, i));
    CAUSEWAY_TRY(layer.sparse ? mix_experts(layer, i) : feed_forward(layer));
    if (layer.sparse) in_front_ = behind_others();
    return consumed(layer_group(i));
  }

  Status norm(WeightsRef weight, std::int64_t rows, const std::int32_t* wanted) {
    float* const parts = std::exchange(pending_, nullptr);
    const kernels::SpentList spent = std::exchange(spent_, {});
    return kernels::rms_norm::run({.rows = rows,
                                   .size = config_.hidden,
                                   .x = a_.x,
                                   .weight = weight.data,
                                   .epsilon = static_cast<float>(config_.norm_epsilon),
                                   .out = a_.normed,
                                   .rows_wanted = wanted,
                                   .parts = parts,
                                   .tokens = shape_.rows,
                                   .sum = a_.x,
                                   .spent = spent},
                                  stream_);
  }

  // What nobody reads any more, for the norm behind. Of more rows than these L2 has written most of
  // it by then.
  kernels::Spent spent(void* data, std::int64_t columns) const {
    constexpr std::int64_t kSpentRowsMax = 256;
    return {data, shape_.rows <= kSpentRowsMax ? shape_.rows * columns * 2 : 0};
  }

  // What counts as the share in front of a product behind another kernel (experts, embedding).
  // Above 16 rows such a product may find SMs empty, and had better fit each only once.
  CudaShare behind_others() const { return shape_.rows > 16 ? CudaShare::kLess : CudaShare::kMore; }

  // A product of the residual stream's norm, which adds what is pending.
  CudaLinear normed(WeightsRef weight, CudaLinear product) {
    product.x = a_.x;
    product.k = config_.hidden;
    product.norm = {weight,    static_cast<float>(config_.norm_epsilon),
                    a_.normed, std::exchange(pending_, nullptr),
                    a_.x,      std::exchange(spent_, {})};
    // With the norm inside, the share that the product in front leaves; behind a norm of its own
    // the one of which an SM has no room for two: CTAs that come when SMs are empty would else lie
    // in pairs. So it is for the head.
    const bool fused = fuses_norm(product, shape_.rows, workspace_.sm_count());
    product.share = fused ? other(in_front_) : CudaShare::kMore;
    return product;
  }

  Status linear(const CudaLinear& linear, std::int64_t rows) {
    in_front_ = linear.share;
    return run_linear(linear, rows, workspace_.sm_count(), workspace_.gemm(),
                      workspace_.gemm_workspace(), stream_);
  }

  kernels::attention::PagedKv paged(std::int64_t layer) const {
    return {.base = kv_.base,
            .frame_bytes = kv_.layout.frame,
            .key_offset = kv_.layout.key_offset(layer),
            .value_offset = kv_.layout.kv_stride,
            .token_stride = kv_.layout.token_stride,
            .block_tokens = kv_.layout.tokens.count,
            .dtype = DType::kBF16};
  }

  kernels::attention::Heads heads() const {
    return {config_.heads, config_.kv_heads, config_.head_dim};
  }
  kernels::attention::ParamsCuda attention_params(
      std::int64_t layer, const kernels::attention::PrepareCuda* fresh) const {
    return {.kv = paged(layer),
            .heads = heads(),
            .sequences = shape_.places,
            .decode = shape_.decode,
            .tokens = shape_.rows,
            .frames = table(at_.frames),
            .frame_begin = table(at_.frame_begin),
            .query_begin = table(at_.query_begin),
            .length = table(at_.length),
            .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
            .q = a_.qkv,
            .q_stride = qkv_size(),
            .out = a_.attended,
            .workspace = workspace_.attention_workspace(),
            .tables_early = true,
            .planned = true,
            .fresh = fresh,
            .cluster = shape_.brief ? cluster_of(shape_.decode) : 0};
  }
  // Of attention's kernel for few sequences; the driver is asked once.
  int cluster_of(std::int64_t sequences) const {
    std::optional<int>& known = clusters_.at(static_cast<std::size_t>(sequences));
    if (!known) known = kernels::attention::few_cluster(heads(), sequences);
    return *known;
  }

  // x += o(attention(rope(qkv(norm(x)))))
  Status attend(const LayerWeights& w, std::int64_t layer) {
    const CudaLinear qkv =
        normed(w.input_norm, {.w = w.qkv, .bias = w.qkv_bias, .n = qkv_size(), .out = a_.qkv});
    CAUSEWAY_TRY(linear(qkv, shape_.rows));
    const kernels::attention::Heads heads = this->heads();
    // Decode rows are prepared by their attention kernel, where it can.
    const bool fused = kernels::attention::fuses_prepare(heads, shape_.decode);
    const kernels::attention::PrepareCuda prepare{
        .kv = paged(layer),
        .heads = heads,
        .first = fused ? shape_.decode : 0,
        .tokens = shape_.rows,
        .sequences = shape_.places,
        .position = table(at_.position),
        .sequence = table(at_.sequence),
        .frames = table(at_.frames),
        .frame_begin = table(at_.frame_begin),
        .rope_table = a_.rope,
        .qkv = a_.qkv,
        .qkv_stride = qkv_size(),
        .q_norm = w.q_norm.data,
        .k_norm = w.k_norm.data,
        .epsilon = static_cast<float>(config_.norm_epsilon)};
    CAUSEWAY_TRY(kernels::attention::prepare(prepare, stream_));
    kernels::attention::ParamsCuda params = attention_params(layer, fused ? &prepare : nullptr);
    params.behind_library = fused && shape_.rows == shape_.decode &&
                            by_library(qkv, shape_.rows, workspace_.sm_count());
    CAUSEWAY_TRY(kernels::attention::run(params, stream_));
    spent_ = {spent(a_.qkv, qkv_size()), spent(a_.attended, q_size())};
    return add_to_stream({.x = a_.attended,
                          .k = q_size(),
                          .w = w.o,
                          .bias = w.o_bias,
                          .n = config_.hidden,
                          .share = CudaShare::kMore});
  }

  // x += the product; or it is left in parts, which the next norm adds.
  Status add_to_stream(CudaLinear product) {
    product.residual = product.out = a_.x;
    if (leaves_parts(product, shape_.rows, workspace_.sm_count())) {
      pending_ = kernels::gemm::CudaGemm::parts_in(workspace_.gemm_workspace());
      product.residual = nullptr;
      product.out = pending_;
      product.type = kernels::gemm::CudaOut::kF32;
      product.parts = kernels::gemm::kPartsMax;
    }
    return linear(product, shape_.rows);
  }

  // x += down(silu(gate(norm(x))) ⊙ up(norm(x)))
  Status feed_forward(const LayerWeights& w) {
    const CudaLinear gate_up = normed(w.post_norm, {.w = w.gate_up,
                                                    .bias = w.gate_up_bias,
                                                    .n = config_.intermediate,
                                                    .silu_mul = true,
                                                    .out = a_.active});
    CAUSEWAY_TRY(linear(gate_up, shape_.rows));
    spent_ = {spent(a_.active, config_.intermediate)};
    return add_to_stream({.x = a_.active,
                          .k = config_.intermediate,
                          .w = w.down,
                          .bias = w.down_bias,
                          .n = config_.hidden,
                          .share = other(gate_up.share)});
  }

  // x += experts(norm(x))
  Status mix_experts(const LayerWeights& w, std::int64_t layer) {
    CudaExpertsStep step{.layer = layer,
                         .tokens = shape_.rows,
                         .sm_count = workspace_.sm_count(),
                         .x = a_.normed,
                         .scores = a_.scores,
                         .residual = a_.x,
                         .workspace = workspace_.experts_workspace(),
                         .experts_read = options_.experts_read};
    // The front does not add what is pending.
    if (pending_ == nullptr && experts_->front_fits(step)) {
      return experts_->run_with_front({.norm_weight = w.post_norm.data,
                                       .router = w.router.data,
                                       .epsilon = static_cast<float>(config_.norm_epsilon)},
                                      step, stream_);
    }
    CAUSEWAY_TRY(norm(w.post_norm, shape_.rows, nullptr));
    CAUSEWAY_TRY(linear({.x = a_.normed,
                         .k = config_.hidden,
                         .w = w.router,
                         .n = config_.moe->experts,
                         .out = a_.scores,
                         .type = kernels::gemm::CudaOut::kF32},
                        shape_.rows));
    return experts_->run(step, stream_);
  }

  // logits of the sampled rows only.
  Status head() {
    for (const int group : {head_group(config_), kEmbeddingGroup}) {
      if (group == kEmbeddingGroup && !config_.tied_embeddings) continue;
      if (layers_ahead_ == 0) CAUSEWAY_TRY(wait_for_group(group));
      CAUSEWAY_TRY(await_group(group));
    }
    CAUSEWAY_TRY(norm(weights_.norm, shape_.sampled, table(at_.sampled)));
    return linear({.x = a_.normed,
                   .k = config_.hidden,
                   .w = weights_.lm_head,
                   .n = config_.vocab,
                   .out = a_.logits,
                   .share = CudaShare::kMore,
                   .type = kernels::gemm::CudaOut::kF32},
                  shape_.sampled);
  }

  const ModelConfig config_;
  const ModelWeights weights_;
  const ModelWeights experts_at_;  // at home, if they are cached one by one
  const weights::ExpertSlots slots_;
  const std::byte* const embedding_home_;  // [vocab][hidden]; null: never read there
  CudaArray<double> frequencies_;
  std::optional<CudaExperts> experts_;
  CudaWorkspace& workspace_;
  const CudaForwardOptions options_;
  const CudaActivations a_;
  CudaGraphs graphs_{workspace_.device()};
  const std::byte* captured_kv_ = nullptr;
  mutable std::array<std::optional<int>, kernels::attention::kFewSequences + 1> clusters_;

  std::set<std::array<std::int64_t, 4>> shapes_run_;  // rows, decode, sampled, brief

  // Of the step that is being enqueued.
  float* pending_ = nullptr;               // parts of the last layer's product that x still lacks
  kernels::SpentList spent_ = {};          // for the next norm
  CudaShare in_front_ = CudaShare::kMore;  // what the last product was to take of an SM
  StepShape shape_;
  KvMemory kv_;
  kernels::CudaStream stream_ = nullptr;
  CudaStepWeights reads_;
  std::int64_t layers_ahead_ = 0;  // of what has arrived, that may be enqueued
  const std::int32_t* tables_ = nullptr;
  TableOffsets at_;
};

CudaForward::CudaForward(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaForward::~CudaForward() = default;
const ModelConfig& CudaForward::config() const { return state_->config(); }
const float* CudaForward::logits() const { return state_->logits(); }
std::vector<std::uint32_t> CudaForward::take_experts_chosen() {
  return state_->take_experts_chosen();
}

Result<std::unique_ptr<CudaForward>> CudaForward::create(ModelConfig config,
                                                         const CudaWeights& weights,
                                                         CudaWorkspace& workspace,
                                                         const CudaForwardOptions& options) {
  CAUSEWAY_TRY(check_served(config, weights.cached.layout->dtype));
  CAUSEWAY_TRY(workspace.check_room(config));
  auto state = std::make_unique<State>(std::move(config), weights, workspace, options);
  CAUSEWAY_TRY(state->upload_constants());
  return std::make_unique<CudaForward>(std::move(state));
}

Status CudaForward::begin(const StepShape& shape, const KvMemory& kv,
                          const CudaStepWeights& weights, kernels::CudaStream stream) {
  return state_->begin(shape, kv, weights, stream);
}

Status CudaForward::run_range(const StepRange& range) { return state_->run_range(range); }

Status CudaForward::run(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
                        kernels::CudaStream stream) {
  return state_->run(shape, kv, weights, stream);
}

}  // namespace causeway::model
