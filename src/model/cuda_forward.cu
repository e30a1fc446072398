#include "model/cuda_forward.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_owned.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda_graph.h"
#include "kernels/home_gemm/home_gemm_cuda.h"
#include "kernels/hybrid_gemm/hybrid_gemm.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/sampling/sampling_cuda.h"
#include "model/cuda_array.h"
#include "model/cuda_experts.h"
#include "model/cuda_graphs.h"
#include "model/layers.h"
#include "model/model_card.h"
#include "model/step_program.h"

namespace causeway::model {
namespace {

// A stream takes some thousand operations; a launch behind them would hold up the driver, and with
// it the copies that the stream waits for. So no more layers than these are enqueued behind a wait.
constexpr std::int64_t kLayersAhead = 8;
constexpr std::int64_t kShapesMax = 65'536;  // that are remembered

constexpr std::int64_t kGraphSlotsMax = 256;  // a graph takes memory: larger steps come seldom

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
  if (c.output_norms && (c.moe || c.hidden > kernels::rms_norm::kPartsSizeMax)) {
    return unsupported("on a GPU norms behind sublayers are of at most " +
                       std::to_string(kernels::rms_norm::kPartsSizeMax) + ", and not with experts");
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
        home_(weights.home.base != nullptr ? std::optional(find_weights(config_, weights.home))
                                           : std::nullopt),
        workspace_(workspace),
        options_(options),
        results_(workspace.activations(config_)) {
    CAUSEWAY_CHECK(reinterpret_cast<std::uintptr_t>(weights.cached.base) % 16 == 0,
                   "a model's weights are not aligned");
  }

  Status upload_constants() {
    CAUSEWAY_ASSIGN(frequencies_, constant(rope_frequencies(config_)));
    if (config_.local_rope_theta) {
      CAUSEWAY_ASSIGN(local_frequencies_, constant(local_rope_frequencies(config_)));
    }
    if (!config_.moe) return {};
    CAUSEWAY_ASSIGN(experts_, CudaExperts::create(config_, experts_at_, slots_, workspace_));
    return {};
  }

  const ModelConfig& config() const { return config_; }
  const float* logits() const { return results_.logits; }
  const std::byte* hidden() const { return results_.normed; }
  std::vector<std::uint32_t> take_experts_chosen() {
    return moves_experts() ? experts_->take_chosen() : std::vector<std::uint32_t>();
  }

  Status run(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
             kernels::CudaStream stream) {
    CAUSEWAY_TRY(check_limits(shape));
    CAUSEWAY_CHECK(!moves_experts(), "a step whose experts move runs in ranges");
    step_ = {shape, kv, weights, stream};
    // All sample in a padded step; a step of single tokens that is not padded comes once.
    const bool again =
        shape.decode_only() && shape.sampled == shape.slots && shape.slots <= kGraphSlotsMax;
    if (!options_.graphs || !again || !settled()) return enqueue();
    if (kv.base != captured_kv_) graphs_.drop();
    captured_kv_ = kv.base;
    // The embedding stays where it is until its group has come.
    return graphs_.run((shape.slots * 4 + kind_of(shape)) * 2 + (embeds_at_home() ? 1 : 0),
                       [this] { return enqueue(); }, stream);
  }

  // One instruction after the other, as each may take some milliseconds.
  Result<bool> load_kernels(const StepShape& shape, const KvMemory& kv,
                            const std::function<bool()>& stop, kernels::CudaStream stream) {
    CAUSEWAY_TRY(check_limits(shape));
    CAUSEWAY_CHECK(!moves_experts(), "kernels of steps whose weights are all cached");
    if (shape != loading_) loaded_ = 0;
    loading_ = shape;
    step_ = {shape, kv, {}, stream};
    CAUSEWAY_TRY(find_program(StepWeightPlan::kAll));
    for (; loaded_ < program_.instructions.size(); ++loaded_) {
      if (stop()) return false;
      const auto enqueue = [&] {
        return run_instructions(std::span(program_.instructions).subspan(loaded_, 1), model(),
                                step_);
      };
      CAUSEWAY_TRY(kernels::load_kernels("a step's kernel", enqueue, stream));
    }
    return true;
  }

  Status begin(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
               kernels::CudaStream stream) {
    CAUSEWAY_TRY(check_limits(shape));
    step_ = {shape, kv, weights, stream};
    ranges_ = step_ranges(config_, weights.where);
    next_range_ = 0;
    return make_program({.where = weights.where, .ranges = ranges_});
  }

  Status run_range(const StepRange& range) {
    CAUSEWAY_CHECK(next_range_ < ranges_.size() && range == ranges_[next_range_],
                   "a step's ranges run in their order");
    step_.home_plans = program_.home_plans;
    return run_instructions(program_.range(next_range_++), model(), step_);
  }

 private:
  Result<CudaArray<double>> constant(const std::vector<double>& values) {
    CAUSEWAY_ASSIGN(device::Piece piece, workspace_.constant(std::as_bytes(std::span(values))));
    return CudaArray<double>(std::move(piece));
  }
  // Tells steps of as many rows apart: which kernels attention takes.
  static std::int64_t kind_of(const StepShape& shape) {
    return (shape.long_context ? 2 : 0) + (shape.small_batch ? 1 : 0);
  }

  Status check_limits(const StepShape& shape) const {
    const CudaStepLimits& limits = workspace_.limits();
    if (shape.rows <= limits.rows && shape.slots <= limits.slots && shape.sampled <= limits.slots) {
      return {};
    }
    return invalid_argument("a step of " + std::to_string(shape.rows) + " tokens of " +
                            std::to_string(shape.slots) + " sequences with " +
                            std::to_string(shape.sampled) + " logits exceeds the workspace's " +
                            std::to_string(limits.rows) + " of " + std::to_string(limits.slots));
  }

  bool moves_experts() const { return experts_ && experts_->moves(); }

  CudaStepModel model() {
    return {.config = config_,
            .weights = weights_,
            .home = home_ ? &*home_ : nullptr,
            .home_gemm = home_gemm_ ? &*home_gemm_ : nullptr,
            .frequencies = frequencies_.data(),
            .local_frequencies = local_frequencies_.data(),
            .experts = experts_ ? &*experts_ : nullptr,
            .experts_read = options_.experts_read,
            .workspace = workspace_,
            .results = results_};
  }

  // Whether all that the step reads is there: in the cache, the embedding perhaps at home.
  bool settled() const {
    using enum weights::WeightPlace;
    const weights::StepWeights where = step_.reads.where;
    return where.empty() || (where[kEmbeddingGroup].place != kStaged &&
                             std::all_of(where.begin() + layer_group(0), where.end(),
                                         [](const auto& view) { return view.place == kCached; }));
  }
  bool embeds_at_home() const {
    const weights::StepWeights where = step_.reads.where;
    return !where.empty() && where[kEmbeddingGroup].place != weights::WeightPlace::kCached;
  }

  // The first use of a kernel loads it, which may wait for all that the GPU has to do: then nothing
  // of that may wait for a copy that is still to be made. So steps of a shape that has not run yet
  // are enqueued as their weights arrive.
  Status enqueue() {
    const StepShape& shape = step_.shape;
    const std::array<std::int64_t, 4> ran = {shape.rows, shape.decode, shape.sampled,
                                             kind_of(shape)};
    CAUSEWAY_TRY(find_program(shapes_run_.contains(ran) ? kLayersAhead : 0));
    step_.home_plans = program_.home_plans;
    CAUSEWAY_TRY(run_instructions(program_.instructions, model(), step_));
    if (std::ssize(shapes_run_) < kShapesMax) shapes_run_.insert(ran);
    return {};
  }

  // The last one made, where that was the same and nothing is on its way.
  Status find_program(std::int64_t layers_ahead) {
    const bool is_settled = settled(), at_home = embeds_at_home();
    if (is_settled && settled_program_ == at_home && program_.shape == step_.shape) return {};
    CAUSEWAY_TRY(make_program({.where = step_.reads.where, .layers_ahead = layers_ahead}));
    if (is_settled) settled_program_ = at_home;
    return {};
  }

  Status make_program(const StepWeightPlan& weight_plan) {
    settled_program_.reset();
    if (multiplies_at_home() && !home_gemm_) CAUSEWAY_TRY(prepare_home());
    CAUSEWAY_ASSIGN(program_, make_step_program(config_, step_.shape, facts(), weight_plan));
    return {};
  }

  // Whether the step has products whose weight is read at home: of layers, or of the head.
  bool multiplies_at_home() const {
    using enum weights::WeightPlace;
    const weights::StepWeights where = step_.reads.where;
    if (where.empty()) return false;
    return (config_.tied_embeddings && where[kEmbeddingGroup].place == kHome) ||
           std::any_of(where.begin() + layer_group(0), where.end(),
                       [](const auto& view) { return view.place == kHome; });
  }

  // When a step does so first. The driver is asked once how many clusters the slice holds.
  Status prepare_home() {
    using kernels::home_gemm::HomeGemm;
    CAUSEWAY_CHECK(home_.has_value(), "the model has no home to be read at");
    CAUSEWAY_ASSIGN(home_clusters_, kernels::hybrid_gemm::clusters_that_fit(step_.stream));
    CAUSEWAY_ASSIGN(HomeGemm made,
                    HomeGemm::create(workspace_.gemm(), kernels::home_gemm::Staging::kNever));
    home_gemm_ = {workspace_.device(), std::move(made)};
    return {};
  }

  StepFacts facts() {
    const StepShape& shape = step_.shape;
    const int sms = workspace_.sm_count();
    kernels::home_gemm::Facts at_home = {};
    if (home_clusters_) at_home.clusters = *home_clusters_;
    return {
        .sm_count = sms,
        .small_batch_cluster = shape.small_batch ? cluster_of(shape.decode) : 0,
        .experts_front = experts_ && experts_->front_fits({.tokens = shape.rows, .sm_count = sms}),
        .experts_move = moves_experts(),
        .at_home = at_home};
  }
  // The cluster of attention's kernel for small batches; the driver is asked once.
  int cluster_of(std::int64_t sequences) {
    std::optional<int>& known = clusters_.at(static_cast<std::size_t>(sequences));
    if (!known) {
      known = kernels::attention::small_batch_cluster(
          {config_.heads, config_.kv_heads, config_.head_dim}, sequences, workspace_.sm_count());
    }
    return *known;
  }

  const ModelConfig config_;
  const ModelWeights weights_;
  const ModelWeights experts_at_;  // at home, if they are cached one by one
  const weights::ExpertSlots slots_;
  const std::optional<ModelWeights> home_;  // nothing: never read there
  device::CudaOwned<kernels::home_gemm::HomeGemm> home_gemm_;
  std::optional<std::array<int, 4>> home_clusters_;
  CudaArray<double> frequencies_, local_frequencies_;
  std::optional<CudaExperts> experts_;
  CudaWorkspace& workspace_;
  const CudaForwardOptions options_;
  const CudaActivations results_;
  CudaGraphs graphs_{workspace_.device()};
  const std::byte* captured_kv_ = nullptr;
  std::array<std::optional<int>, kernels::attention::kSmallBatchSequences + 1> clusters_;

  std::set<std::array<std::int64_t, 4>> shapes_run_;  // rows, decode, sampled, kind_of()

  StepShape loading_;       // whose kernels were loaded last
  std::size_t loaded_ = 0;  // of its instructions

  CudaStep step_;  // that is being enqueued
  StepProgram program_;
  // Whether program_ embeds at home, if it is for weights that are all there; else nothing.
  std::optional<bool> settled_program_;
  std::vector<StepRange> ranges_;  // of a streamed model's step
  std::size_t next_range_ = 0;
};

CudaForward::CudaForward(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaForward::~CudaForward() = default;
const ModelConfig& CudaForward::config() const { return state_->config(); }
const float* CudaForward::logits() const { return state_->logits(); }
const std::byte* CudaForward::hidden() const { return state_->hidden(); }
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

Result<bool> CudaForward::load_kernels(const StepShape& shape, const KvMemory& kv,
                                       const std::function<bool()>& stop,
                                       kernels::CudaStream stream) {
  return state_->load_kernels(shape, kv, stop, stream);
}

Status CudaForward::run(const StepShape& shape, const KvMemory& kv, const CudaStepWeights& weights,
                        kernels::CudaStream stream) {
  return state_->run(shape, kv, weights, stream);
}

}  // namespace causeway::model
