#include "model/cuda_step.h"

#include "base/check.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/soft_cap/soft_cap_cuda.h"
#include "model/model_card.h"

namespace causeway::model {
namespace {

using kernels::WeightsRef;

constexpr Nanos kStagedMax = seconds(60);  // until a group must be there

// The call of each instruction.
class Loop {
 public:
  Loop(const CudaStepModel& model, const CudaStep& step)
      : c_(model.config),
        model_(model),
        step_(step),
        shape_(step.shape),
        stream_(step.stream),
        tables_(model.workspace.tables()),
        at_(offsets_of(step.shape)) {}

  Status operator()(const step::Await& i) const {
    const weights::WeightView& view = view_of(i.group);
    if (!i.on_host) return step_.reads.steps->wait(*view.ready, view.value);
    return view.ready->wait(view.value, kStagedMax).with_context("weights on their way");
  }

  Status operator()(const step::Consumed& i) const {
    const weights::WeightView& view = view_of(i.group);
    return step_.reads.steps->signal(*view.consumed, view.consumed_value);
  }

  Status operator()(const step::PlaceExperts&) const {
    for (std::int64_t i = 0; i < c_.layers; ++i) {
      model_.experts->place(i, view_of(layer_group(i)).slots);
    }
    return model_.experts->bring(stream_);
  }

  Status operator()(const step::CountExperts&) const {
    return model_.experts->fetch_chosen(stream_);
  }

  Status operator()(const step::PlanAttention& i) const {
    return kernels::attention::plan(attention_params({.windowed = i.windowed}, nullptr), stream_);
  }

  Status operator()(const step::FillRope& i) const {
    return kernels::rope::fill_table(
        {.tokens = shape_.rows,
         .size = c_.head_dim,
         .frequencies = i.local ? model_.local_frequencies : model_.frequencies,
         .pairs = c_.rotated_dim() / 2,
         .amplitude = i.local ? 1 : rope_amplitude(c_),
         .position = tables_ + at_.position,
         .out = rope(i.local)},
        stream_);
  }

  Status operator()(const step::Embed& i) const {
    return kernels::embedding::run({.table = (i.at_home ? home() : model_.weights).embedding.data,
                                    .table_rows = c_.vocab,
                                    .size = c_.hidden,
                                    .index = tables_ + at_.token,
                                    .count = shape_.rows,
                                    .out = model_.results.x,
                                    .scale = c_.embedding_scale()},
                                   stream_);
  }

  Status operator()(const step::Norm& i) const {
    return kernels::rms_norm::run(
        {.rows = i.rows,
         .size = c_.hidden,
         .x = model_.results.x,
         .weight = weight(i.weight, i.layer).data,
         .offset = norm_offset(),
         .epsilon = epsilon(),
         .out = i.sum_only ? nullptr : model_.results.normed,
         .rows_wanted = i.sampled ? tables_ + at_.sampled : nullptr,
         .parts = i.parts ? parts() : nullptr,
         .parts_stay = i.parts_stay,
         .tokens = shape_.rows,
         .sum = model_.results.x,
         .added = i.join ? model_.results.added : nullptr,
         .added_weight = i.join ? weight(i.join->weight, i.join->layer).data : nullptr,
         .discards = discards(i.drops)},
        stream_);
  }

  Status operator()(const step::Product& i) const {
    const kernels::gemm::CudaRequest& request = i.plan.request;
    void* const out = buffer(i.out);
    const kernels::gemm::CudaOperands operands = {
        .x = buffer(i.x),
        .w = weight(i.weight, i.layer).data,
        .bias = request.bias ? bias(i.weight, i.layer).data : nullptr,
        .residual = request.residual ? out : nullptr,
        .gains = request.norm ? weight(i.gains, i.layer).data : nullptr,
        .epsilon = request.norm ? epsilon() : 0,
        .discards = discards(i.drops),
        .out = out,
        .x_stride = request.k,
        .w_stride = request.k,
        .residual_stride = request.n,
        .out_stride = request.n};
    if (i.home >= 0) return multiply_at_home(i.home, operands);
    return model_.workspace.gemm().run(i.plan, operands, model_.workspace.gemm_workspace(), stream_,
                                       kernels::gemm::Overlap::kYes);
  }

  Status operator()(const step::Activate&) const {
    return kernels::activation::run({.rows = shape_.rows,
                                     .size = c_.intermediate,
                                     .gate_up = model_.results.gate_up,
                                     .out = model_.results.active,
                                     .gate = c_.activation},
                                    stream_);
  }

  Status operator()(const step::CapLogits&) const {
    return kernels::soft_cap::run({.x = model_.results.logits,
                                   .count = shape_.sampled * c_.vocab,
                                   .cap = static_cast<float>(c_.logit_cap)},
                                  stream_);
  }

  Status operator()(const step::Prepare& i) const {
    return kernels::attention::prepare(
        prepare_params(i.layer, i.first, i.local_rope, i.scaled_queries), stream_);
  }

  Status operator()(const step::Attention& i) const {
    const auto fused_prepare = prepare_params(i.layer, shape_.decode, i.local_rope, false);
    return kernels::attention::run(attention_params(i, i.fused_prepare ? &fused_prepare : nullptr),
                                   stream_);
  }

  Status operator()(const step::Experts& i) const {
    const CudaExpertsStep step{.layer = i.layer,
                               .tokens = shape_.rows,
                               .sm_count = model_.workspace.sm_count(),
                               .x = model_.results.normed,
                               .scores = model_.results.scores,
                               .residual = model_.results.x,
                               .workspace = model_.workspace.experts_workspace(),
                               .experts_read = model_.experts_read};
    if (!i.front) return model_.experts->run(step, stream_);
    return model_.experts->run_with_front(
        {.norm_weight = weight(StepWeight::kPostNorm, i.layer).data,
         .router = weight(StepWeight::kRouter, i.layer).data,
         .epsilon = epsilon()},
        step, stream_);
  }

 private:
  float norm_offset() const { return c_.norm_offset ? 1 : 0; }
  float* rope(bool local) const { return local ? model_.results.local_rope : model_.results.rope; }
  float epsilon() const { return static_cast<float>(c_.norm_epsilon); }
  std::int64_t qkv_size() const { return (c_.heads + 2 * c_.kv_heads) * c_.head_dim; }
  kernels::attention::Heads heads() const { return {c_.heads, c_.kv_heads, c_.head_dim}; }
  float* parts() const {
    return kernels::gemm::CudaGemm::parts_in(model_.workspace.gemm_workspace());
  }
  const weights::WeightView& view_of(int group) const {
    return step_.reads.where[static_cast<std::size_t>(group)];
  }

  Status multiply_at_home(int index, const kernels::gemm::CudaOperands& operands) const {
    CAUSEWAY_CHECK(model_.home_gemm != nullptr, "a product at home, and nothing that does it");
    const kernels::home_gemm::Plan& plan = step_.home_plans[static_cast<std::size_t>(index)];
    return model_.home_gemm->run(plan, operands, {.workspace = model_.workspace.gemm_workspace()},
                                 stream_);
  }

  const ModelWeights& home() const {
    CAUSEWAY_CHECK(model_.home != nullptr, "the model has no home to be read at");
    return *model_.home;
  }

  // The weights of a group, where the step reads them.
  const ModelWeights& weights_of(int group) const {
    const bool at_home =
        !step_.reads.where.empty() && view_of(group).place == weights::WeightPlace::kHome;
    return at_home ? home() : model_.weights;
  }
  const LayerWeights& layer_of(std::int64_t layer) const {
    return weights_of(layer_group(layer)).layers[static_cast<std::size_t>(layer)];
  }

  WeightsRef weight(StepWeight which, std::int64_t layer) const {
    if (which == StepWeight::kNorm) return weights_of(head_group(c_)).norm;
    if (which == StepWeight::kHead) {
      return weights_of(c_.tied_embeddings ? kEmbeddingGroup : head_group(c_)).lm_head;
    }
    const LayerWeights& w = layer_of(layer);
    switch (which) {
      case StepWeight::kInputNorm: return w.input_norm;
      case StepWeight::kQkv: return w.qkv;
      case StepWeight::kO: return w.o;
      case StepWeight::kAttentionNorm: return w.attention_norm;
      case StepWeight::kPostNorm: return w.post_norm;
      case StepWeight::kMlpNorm: return w.mlp_norm;
      case StepWeight::kGateUp: return w.gate_up;
      case StepWeight::kDown: return w.down;
      case StepWeight::kRouter: return w.router;
      default: CAUSEWAY_CHECK(false, "no weight of a layer");
    }
    return {};
  }

  WeightsRef bias(StepWeight of, std::int64_t layer) const {
    const LayerWeights& w = layer_of(layer);
    switch (of) {
      case StepWeight::kQkv: return w.qkv_bias;
      case StepWeight::kO: return w.o_bias;
      case StepWeight::kGateUp: return w.gate_up_bias;
      case StepWeight::kDown: return w.down_bias;
      default: CAUSEWAY_CHECK(false, "a weight without a bias");
    }
    return {};
  }

  void* buffer(StepBuffer which) const {
    const CudaActivations& a = model_.results;
    switch (which) {
      case StepBuffer::kX: return a.x;
      case StepBuffer::kNormed: return a.normed;
      case StepBuffer::kQkv: return a.qkv;
      case StepBuffer::kAttended: return a.attended;
      case StepBuffer::kActive: return a.active;
      case StepBuffer::kGateUp: return a.gate_up;
      case StepBuffer::kAdded: return a.added;
      case StepBuffer::kScores: return a.scores;
      case StepBuffer::kLogits: return a.logits;
      case StepBuffer::kParts: return parts();
      default: CAUSEWAY_CHECK(false, "no operand of a product");
    }
    return nullptr;
  }

  kernels::DiscardList discards(const step::Drops& drops) const {
    kernels::DiscardList list = {};
    for (std::size_t i = 0; i < drops.size(); ++i) {
      if (drops[i].bytes.count > 0) list[i] = {buffer(drops[i].buffer), drops[i].bytes.count};
    }
    return list;
  }

  kernels::attention::PagedKv paged(std::int64_t layer) const {
    const KvMemory& kv = step_.kv;
    return {.base = kv.base,
            .frame_bytes = kv.layout.frame,
            .key_offset = kv.layout.key_offset(layer),
            .value_offset = kv.layout.kv_stride,
            .token_stride = kv.layout.token_stride,
            .block_tokens = kv.layout.tokens.count,
            .dtype = DType::kBF16};
  }

  kernels::attention::PrepareCuda prepare_params(std::int64_t layer, std::int64_t first,
                                                 bool local_rope, bool scaled_queries) const {
    const LayerWeights& w = layer_of(layer);
    return {.kv = paged(layer),
            .heads = heads(),
            .first = first,
            .tokens = shape_.rows,
            .sequences = shape_.slots,
            .position = tables_ + at_.position,
            .sequence = tables_ + at_.sequence,
            .frames = tables_ + at_.frames,
            .frame_begin = tables_ + at_.frame_begin,
            .rope_table = rope(local_rope),
            .qkv = model_.results.qkv,
            .qkv_stride = qkv_size(),
            .q_norm = w.q_norm.data,
            .k_norm = w.k_norm.data,
            .epsilon = epsilon(),
            .norm_offset = norm_offset(),
            .logn_context = scaled_queries ? c_.logn_context : 0};
  }

  kernels::attention::ParamsCuda attention_params(
      const step::Attention& i, const kernels::attention::PrepareCuda* fused_prepare) const {
    return {.kv = paged(i.layer),
            .heads = heads(),
            .sequences = shape_.slots,
            .decode = shape_.decode,
            .tokens = shape_.rows,
            .frames = tables_ + at_.frames,
            .frame_begin = tables_ + at_.frame_begin,
            .query_begin = tables_ + at_.query_begin,
            .length = tables_ + at_.length,
            .scale = attention_scale(c_),
            .q = model_.results.qkv,
            .q_stride = qkv_size(),
            .out = model_.results.attended,
            .workspace = model_.workspace.attention_workspace(),
            .tables_early = true,
            .planned = i.planned,
            .fused_prepare = fused_prepare,
            .behind_library = i.behind_library,
            .cluster = i.cluster,
            .sm_count = model_.workspace.sm_count(),
            .window = i.windowed ? c_.sliding_window : kernels::attention::kNoWindow,
            .cap = static_cast<float>(c_.attention_cap)};
  }

  const ModelConfig& c_;
  const CudaStepModel& model_;
  const CudaStep& step_;
  const StepShape& shape_;
  kernels::CudaStream stream_;
  const std::int32_t* tables_;
  const TableOffsets at_;
};

}  // namespace

Status run_instructions(std::span<const StepInstruction> instructions, const CudaStepModel& model,
                        const CudaStep& step) {
  const Loop loop(model, step);
  for (const StepInstruction& instruction : instructions) {
    CAUSEWAY_TRY(std::visit(loop, instruction));
  }
  return {};
}

}  // namespace causeway::model
