#include "model/step_program.h"

#include <utility>

#include "base/check.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/home_gemm/profile.h"
#include "model/model_card.h"
#include "model/step_products.h"

namespace causeway::model {
namespace {

using kernels::gemm::CudaOut;
using kernels::gemm::CudaPlan;
using kernels::gemm::CudaRequest;
using kernels::gemm::CudaShare;
using kernels::gemm::kPartsMax;

CudaShare other(CudaShare share) {
  return share == CudaShare::kLess ? CudaShare::kMore : CudaShare::kLess;
}

// Makes a program from front to end; what one instruction leaves to the next is kept meanwhile.
class Maker {
 public:
  Maker(const ModelConfig& config, const StepShape& shape, const StepFacts& facts,
        const StepWeightPlan& weight_plan)
      : c_(config), shape_(shape), facts_(facts), weight_plan_(weight_plan) {}

  Result<StepProgram> make() {
    made_.shape = shape_;
    made_.instructions.reserve(static_cast<std::size_t>(8 * c_.layers + 16));
    const StepRange all{.first = 0, .end = c_.layers, .front = true, .head = true};
    const auto ranges = weight_plan_.ranges.empty() ? std::span(&all, 1) : weight_plan_.ranges;
    for (const StepRange& range : ranges) {
      CAUSEWAY_TRY(add_range(range));
      made_.range_ends.push_back(made_.instructions.size());
    }
    return std::move(made_);
  }

 private:
  std::int64_t q_size() const { return c_.heads * c_.head_dim; }
  std::int64_t qkv_size() const { return (c_.heads + 2 * c_.kv_heads) * c_.head_dim; }
  bool capped() const { return c_.attention_cap > 0; }
  int cluster() const {
    return shape_.small_batch && !shape_.long_context && !capped() ? facts_.small_batch_cluster : 0;
  }
  kernels::gemm::CudaFacts gemm_facts() const { return {.sm_count = facts_.sm_count}; }
  kernels::attention::Heads heads() const { return {c_.heads, c_.kv_heads, c_.head_dim}; }

  void add(StepInstruction instruction) { made_.instructions.push_back(std::move(instruction)); }

  const weights::WeightView* view_of(int group) const {
    return weight_plan_.where.empty() ? nullptr
                                      : &weight_plan_.where[static_cast<std::size_t>(group)];
  }

  void await(int group, bool on_host) {
    const weights::WeightView* view = view_of(group);
    if (view == nullptr) return;
    if (view->place == weights::WeightPlace::kStaged) add(step::Await{group, on_host});
  }

  bool at_home(int group) const {
    const weights::WeightView* view = view_of(group);
    return view != nullptr && view->place == weights::WeightPlace::kHome;
  }

  void consumed(int group) {
    const weights::WeightView* view = view_of(group);
    if (view != nullptr && view->consumed != nullptr) add(step::Consumed{group});
  }

  Status add_range(const StepRange& range) {
    if (range.front) add_front();
    for (std::int64_t i = range.first; i < range.end; ++i) {
      if (i >= weight_plan_.layers_ahead) await(layer_group(i - weight_plan_.layers_ahead), true);
      CAUSEWAY_TRY(add_layer(i, i + 1 == range.end && !range.head));
    }
    if (!range.head) return {};
    if (shape_.sampled > 0) CAUSEWAY_TRY(add_head());
    if (facts_.experts_move) add(step::CountExperts{});
    consumed(head_group(c_));
    return {};
  }

  // What stands before the layers. The latter two let nothing behind them start before they have
  // waited for what is in front: plan and table, which attention reads early, are complete when the
  // first layer's product starts.
  void add_front() {
    in_front_ = behind_others();
    if (facts_.experts_move) add(step::PlaceExperts{});
    if (has_plan()) {
      if (!windowed() || !c_.global_layers.empty()) add(step::PlanAttention{false});
      if (windowed()) add(step::PlanAttention{true});
    }
    add(step::FillRope{});
    if (c_.local_rope_theta) add(step::FillRope{.local = true});
    const weights::WeightView* view = view_of(kEmbeddingGroup);
    add(step::Embed{.at_home = view != nullptr && view->place != weights::WeightPlace::kCached});
  }

  // Whether the split kernel, or that for few sequences, serves decode.
  bool splits() const { return kernels::attention::fuses_prepare(heads(), shape_.decode); }
  bool has_plan() const { return cluster() == 0 && splits(); }
  // Whether a sequence of the step is longer than the window, or than logn attention's context.
  bool windowed() const { return shape_.long_context && c_.sliding_window != kNoWindow; }
  bool scales_queries() const { return shape_.long_context && c_.logn_context > 0; }
  // Whether decode rows are prepared by their attention kernel: it knows no scale of queries, and
  // in clusters no norms with an offset.
  bool fuses_prepare() const {
    const bool offset = c_.qk_norm && c_.norm_offset;
    return splits() && !(offset && cluster() > 0) && !scales_queries();
  }

  Status add_layer(std::int64_t layer, bool before_cut) {
    CAUSEWAY_CHECK(!c_.is_sparse(layer) || !c_.output_norms, "experts, and norms behind them");
    CAUSEWAY_CHECK(!c_.is_sparse(layer) || !at_home(layer_group(layer)),
                   "a layer of experts is not read at home");
    await(layer_group(layer), false);
    CAUSEWAY_TRY(attend(layer));
    if (c_.is_sparse(layer)) {
      CAUSEWAY_TRY(mix_experts(layer));
      in_front_ = behind_others();
    } else {
      CAUSEWAY_TRY(feed_forward(layer, before_cut));
    }
    consumed(layer_group(layer));
    return {};
  }

  // For more rows than these L2 has written most of the buffer to HBM by the time of the next norm.
  step::Drop drop_of(StepBuffer buffer, std::int64_t columns) const {
    constexpr std::int64_t kDiscardRowsMax = 256;
    return {buffer, Bytes(shape_.rows <= kDiscardRowsMax ? shape_.rows * columns * 2 : 0)};
  }

  // What counts as the share in front of a product behind another kernel (experts, embedding).
  // Above 16 rows such a product may find SMs empty, and had better fit each only once.
  CudaShare behind_others() const { return shape_.rows > 16 ? CudaShare::kLess : CudaShare::kMore; }

  // normed = norm(x), with what is pending, which `behind` drops if it can.
  void add_norm(step::Norm norm, step::Product* behind) {
    norm.parts = std::exchange(parts_pending_, false);
    norm.join = std::exchange(join_pending_, std::nullopt);
    const step::Drops drops = std::exchange(drops_, {});
    if (behind == nullptr || !behind->plan.drops) {
      norm.drops = drops;
    } else {
      behind->drops = drops;
      CAUSEWAY_CHECK(drops.back().bytes.count == 0,
                     "no room for the parts among what is discarded");
      if (norm.parts) {
        norm.parts_stay = true;
        behind->drops.back() = {StepBuffer::kParts, Bytes(kPartsMax * shape_.rows * c_.hidden * 4)};
      }
    }
    add(norm);
  }

  // Which group a product's weight is of.
  int group_of(const step::Product& product) const {
    if (product.weight != StepWeight::kHead) return layer_group(product.layer);
    return c_.tied_embeddings ? kEmbeddingGroup : head_group(c_);
  }

  // Gives a product its plan: layers ask for the same ones again, where `state` is the same.
  template <typename MakeRequest>
  Status plan_once(step::Product& product, unsigned state, const MakeRequest& make_request) {
    const bool home = at_home(group_of(product));
    for (const Chosen& known : chosen_) {
      if (known.weight != product.weight || known.state != state || home != (known.home >= 0)) {
        continue;
      }
      product.plan = known.plan;
      product.home = known.home;
      return {};
    }
    const CudaRequest request = make_request(home);
    if (home) {
      CAUSEWAY_TRY(plan_at_home(product, request));
    } else {
      CAUSEWAY_ASSIGN(product.plan, kernels::gemm::choose(request, gemm_facts()));
    }
    chosen_.push_back({product.weight, state, product.plan, product.home});
    return {};
  }

  Status plan_at_home(step::Product& product, const CudaRequest& request) {
    using kernels::home_gemm::Profile;
    kernels::home_gemm::Facts facts = facts_.at_home;
    facts.sm_count = facts_.sm_count;
    const Profile& profile =
        facts_.home_profile != nullptr ? *facts_.home_profile : Profile::built_in(facts.home);
    CAUSEWAY_ASSIGN(kernels::home_gemm::Plan plan,
                    kernels::home_gemm::choose(request, facts, profile));
    product.plan = plan.product;
    product.plan.request = request;
    product.home = static_cast<int>(made_.home_plans.size());
    made_.home_plans.push_back(std::move(plan));
    return {};
  }

  CudaRequest normed_request(CudaRequest request, bool home) const {
    request.m = shape_.rows;
    request.k = c_.hidden;
    request = dense(request);
    request.norm = !home && !parts_pending_ && !join_pending_ && !c_.norm_offset &&
                   kernels::gemm::fuses_norm(request, gemm_facts());
    // With the norm inside, the share that the product in front leaves; behind a norm of its own
    // the one of which an SM has no room for two: CTAs that come when SMs are empty would else lie
    // in pairs. So it is for the head.
    request.share = request.norm ? other(in_front_) : CudaShare::kMore;
    return request;
  }

  // A product of the residual stream's norm, which adds what is pending.
  Status add_normed(step::Product product, const CudaRequest& request) {
    const unsigned state = (parts_pending_ ? 1u : 0u) + (in_front_ == CudaShare::kMore ? 2u : 0u) +
                           (join_pending_ ? 4u : 0u);
    CAUSEWAY_TRY(
        plan_once(product, state, [&](bool home) { return normed_request(request, home); }));
    if (product.plan.request.norm) {
      product.x = StepBuffer::kX;
      drops_ = {};  // the norm inside drops nothing
    } else {
      product.x = StepBuffer::kNormed;
      add_norm({.weight = product.gains, .layer = product.layer, .rows = shape_.rows}, &product);
    }
    add_product(product);
    return {};
  }

  CudaRequest stream_request(CudaRequest request, bool may_leave_parts) const {
    request.m = shape_.rows;
    request.n = c_.hidden;
    request.residual = true;
    request = dense(request);
    if (may_leave_parts && leaves_parts(request, gemm_facts())) {
      request.residual = false;
      request.out = CudaOut::kF32;
      request.parts = kPartsMax;
    }
    return dense(request);
  }

  // x += the product; or it is left in parts, which the next norm adds.
  Status add_to_stream(step::Product product, const CudaRequest& request, bool may_leave_parts) {
    const unsigned state =
        (may_leave_parts ? 1u : 0u) + (request.share == CudaShare::kMore ? 2u : 0u);
    CAUSEWAY_TRY(plan_once(product, state, [&](bool home) {
      return stream_request(request, may_leave_parts && !home);
    }));
    parts_pending_ = product.plan.request.parts > 1;
    product.out = parts_pending_ ? StepBuffer::kParts : StepBuffer::kX;
    add_product(product);
    return {};
  }

  // What the product gives is normalised by `norm` and then added to x: by the next norm, or at
  // once.
  Status add_to_join(step::Product product, CudaRequest request, StepWeight norm, bool at_once) {
    request.m = shape_.rows;
    request.n = c_.hidden;
    CAUSEWAY_TRY(plan_once(product, request.share == CudaShare::kMore ? 2u : 0u,
                           [&](bool) { return dense(request); }));
    product.out = StepBuffer::kAdded;
    add_product(product);
    join_pending_ = step::Join{norm, product.layer};
    if (at_once) {
      add_norm({.weight = norm, .layer = product.layer, .rows = shape_.rows, .sum_only = true},
               nullptr);
    }
    return {};
  }

  // Whether what is left of a layer may be read when its group has been declared consumed.
  bool is_kept(std::int64_t layer) const {
    const weights::WeightView* view = view_of(layer_group(layer));
    return view == nullptr || view->consumed == nullptr;
  }

  void add_product(const step::Product& product) {
    in_front_ = product.plan.request.share;
    add(product);
  }

  // x += o(attention(rope(qkv(norm(x)))))
  Status attend(std::int64_t layer) {
    CAUSEWAY_TRY(add_normed({.weight = StepWeight::kQkv,
                             .layer = layer,
                             .out = StepBuffer::kQkv,
                             .gains = StepWeight::kInputNorm},
                            {.n = qkv_size(), .bias = c_.attention_bias}));
    const bool by_library = std::get<step::Product>(made_.instructions.back()).plan.path ==
                            kernels::gemm::CudaPath::kLibrary;
    // Decode rows are prepared by their attention kernel, where it can.
    const bool fused_prepare = fuses_prepare();
    const bool local_rope = c_.local_rope_theta && c_.is_local(layer);
    const std::int64_t first = fused_prepare ? shape_.decode : 0;
    if (first < shape_.rows) add(step::Prepare{layer, first, local_rope, scales_queries()});
    add(step::Attention{
        .layer = layer,
        .decode = shape_.decode > 0,
        .prompts = shape_.decode < shape_.slots,
        .cluster = cluster(),
        .planned = has_plan(),
        .fused_prepare = fused_prepare,
        .behind_library = fused_prepare && shape_.rows == shape_.decode && by_library,
        .windowed = shape_.long_context && c_.has_window(layer),
        .local_rope = local_rope});
    drops_ = {drop_of(StepBuffer::kQkv, qkv_size()), drop_of(StepBuffer::kAttended, q_size())};
    const step::Product o{.weight = StepWeight::kO, .layer = layer, .x = StepBuffer::kAttended};
    const CudaRequest request{.k = q_size(), .bias = c_.output_bias, .share = CudaShare::kMore};
    if (c_.output_norms) return add_to_join(o, request, StepWeight::kAttentionNorm, false);
    return add_to_stream(o, request, true);
  }

  // active = f(gate(norm(x))) ⊙ up(norm(x))
  Status activate(std::int64_t layer) {
    const bool fused = c_.activation == kernels::activation::Gate::kSilu;
    CAUSEWAY_TRY(add_normed(
        {.weight = StepWeight::kGateUp,
         .layer = layer,
         .out = fused ? StepBuffer::kActive : StepBuffer::kGateUp,
         .gains = StepWeight::kPostNorm},
        {.n = (fused ? 1 : 2) * c_.intermediate, .bias = c_.mlp_bias, .silu_mul = fused}));
    drops_ = {drop_of(StepBuffer::kActive, c_.intermediate)};
    if (fused) return {};
    add(step::Activate{});
    in_front_ = behind_others();
    drops_[1] = drop_of(StepBuffer::kGateUp, 2 * c_.intermediate);
    return {};
  }

  // x += down(active)
  Status feed_forward(std::int64_t layer, bool before_cut) {
    CAUSEWAY_TRY(activate(layer));
    const step::Product down{.weight = StepWeight::kDown, .layer = layer, .x = StepBuffer::kActive};
    const CudaRequest request{.k = c_.intermediate, .bias = c_.mlp_bias, .share = other(in_front_)};
    if (!c_.output_norms) return add_to_stream(down, request, !before_cut);
    return add_to_join(down, request, StepWeight::kMlpNorm, before_cut || !is_kept(layer));
  }

  // x += experts(norm(x))
  Status mix_experts(std::int64_t layer) {
    // The front does not add what is pending, and knows no norms with an offset.
    if (!parts_pending_ && facts_.experts_front && !c_.norm_offset) {
      add(step::Experts{layer, true});
      return {};
    }
    add_norm({.weight = StepWeight::kPostNorm, .layer = layer, .rows = shape_.rows}, nullptr);
    CAUSEWAY_TRY(add_f32({.weight = StepWeight::kRouter,
                          .layer = layer,
                          .x = StepBuffer::kNormed,
                          .out = StepBuffer::kScores},
                         {.m = shape_.rows, .n = c_.moe->experts}));
    add(step::Experts{layer, false});
    return {};
  }

  // logits of the sampled rows only.
  Status add_head() {
    for (const int group : {head_group(c_), kEmbeddingGroup}) {
      if (group == kEmbeddingGroup && !c_.tied_embeddings) continue;
      if (weight_plan_.layers_ahead == 0) await(group, true);
      await(group, false);
    }
    add_norm({.weight = StepWeight::kNorm, .rows = shape_.sampled, .sampled = true}, nullptr);
    CAUSEWAY_TRY(
        add_f32({.weight = StepWeight::kHead, .x = StepBuffer::kNormed, .out = StepBuffer::kLogits},
                {.m = shape_.sampled, .n = c_.vocab, .share = CudaShare::kMore}));
    if (c_.logit_cap > 0) add(step::CapLogits{});
    return {};
  }

  // A product of normed with f32 results.
  Status add_f32(step::Product product, CudaRequest request) {
    request.k = c_.hidden;
    request.out = CudaOut::kF32;
    CAUSEWAY_TRY(plan_once(product, 0, [&](bool) { return dense(request); }));
    add_product(product);
    return {};
  }

  const ModelConfig& c_;
  const StepShape& shape_;
  const StepFacts& facts_;
  const StepWeightPlan& weight_plan_;
  struct Chosen {
    StepWeight weight;
    unsigned state;
    CudaPlan plan;
    int home;
  };
  std::vector<Chosen> chosen_;
  StepProgram made_;
  // Behind the last instruction.
  bool parts_pending_ = false;              // x lacks kParts
  std::optional<step::Join> join_pending_;  // x lacks the norm of kAdded
  step::Drops drops_ = {};                  // for the next norm
  CudaShare in_front_ = CudaShare::kMore;   // what the last product was to take of an SM
};

}  // namespace

std::span<const StepInstruction> StepProgram::range(std::size_t index) const {
  const std::size_t begin = index == 0 ? 0 : range_ends.at(index - 1);
  return std::span(instructions).subspan(begin, range_ends.at(index) - begin);
}

Result<StepProgram> make_step_program(const ModelConfig& config, const StepShape& shape,
                                      const StepFacts& facts, const StepWeightPlan& weight_plan) {
  return Maker(config, shape, facts, weight_plan).make();
}

}  // namespace causeway::model
