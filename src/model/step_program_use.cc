// What instructions of a step read and write.
#include "kernels/gemm/gemm_cuda.h"
#include "model/model_card.h"
#include "model/step_program.h"

namespace causeway::model {
namespace {

constexpr StepBuffers kX = set_of(StepBuffer::kX), kNormed = set_of(StepBuffer::kNormed),
                      kQkv = set_of(StepBuffer::kQkv), kAttended = set_of(StepBuffer::kAttended),
                      kScores = set_of(StepBuffer::kScores), kParts = set_of(StepBuffer::kParts),
                      kRope = set_of(StepBuffer::kRope), kPlan = set_of(StepBuffer::kPlan),
                      kKv = set_of(StepBuffer::kKv);

StepBuffers when(bool condition, StepBuffers buffers) { return condition ? buffers : 0; }

StepBuffers dropped(const step::Drops& drops) {
  StepBuffers set = 0;
  for (const step::Drop& drop : drops) set |= when(drop.bytes.count > 0, set_of(drop.buffer));
  return set;
}

struct UseOf {
  StepUse operator()(const step::Await&) const { return {}; }
  StepUse operator()(const step::Consumed&) const { return {}; }
  StepUse operator()(const step::PlaceExperts&) const { return {}; }
  StepUse operator()(const step::CountExperts&) const { return {}; }
  StepUse operator()(const step::PlanAttention&) const { return {.writes = kPlan}; }
  StepUse operator()(const step::FillRope&) const { return {.writes = kRope}; }
  StepUse operator()(const step::Embed&) const { return {.writes = kX}; }
  // Parts that were added must not be added again, though they stay.
  StepUse operator()(const step::Norm& n) const {
    return {.reads = kX | when(n.parts, kParts),
            .writes = kNormed | when(n.parts, kX),
            .ended = dropped(n.drops) | when(n.parts, kParts)};
  }
  StepUse operator()(const step::Product& p) const {
    const kernels::gemm::CudaRequest& request = p.plan.request;
    // The library's gate and up lie where parts do, until SiLU has read them; so may HybridGEMM's.
    const bool over_parts =
        request.silu_mul && (p.home >= 0 || p.plan.path == kernels::gemm::CudaPath::kLibrary);
    return {.reads = set_of(p.x) | when(request.residual, set_of(p.out)),
            .writes = set_of(p.out),
            .ended = dropped(p.drops) | when(over_parts, kParts)};
  }
  StepUse operator()(const step::Prepare&) const {
    return {.reads = kQkv | kRope, .writes = kQkv | kKv};
  }
  StepUse operator()(const step::Attention& a) const {
    return {.reads = kQkv | when(a.prompts || !a.fresh, kKv) | when(a.fresh, kRope) |
                     when(a.planned, kPlan),
            .writes = kAttended | when(a.fresh, kKv)};
  }
  StepUse operator()(const step::Experts& e) const {
    return {.reads = kX | when(!e.front, kNormed | kScores), .writes = kX};
  }
};

struct GroupRead {
  const ModelConfig& c;

  int of_layer(std::int64_t layer) const { return layer_group(layer); }
  std::optional<int> operator()(const step::Await&) const { return std::nullopt; }
  std::optional<int> operator()(const step::Consumed&) const { return std::nullopt; }
  std::optional<int> operator()(const step::PlaceExperts&) const { return std::nullopt; }
  std::optional<int> operator()(const step::CountExperts&) const { return std::nullopt; }
  std::optional<int> operator()(const step::PlanAttention&) const { return std::nullopt; }
  std::optional<int> operator()(const step::FillRope&) const { return std::nullopt; }
  std::optional<int> operator()(const step::Embed& e) const {
    return e.at_home ? std::nullopt : std::optional(kEmbeddingGroup);
  }
  std::optional<int> operator()(const step::Norm& n) const {
    return n.weight == StepWeight::kNorm ? head_group(c) : of_layer(n.layer);
  }
  std::optional<int> operator()(const step::Product& p) const {
    if (p.weight != StepWeight::kHead) return of_layer(p.layer);
    return c.tied_embeddings ? kEmbeddingGroup : head_group(c);
  }
  std::optional<int> operator()(const step::Prepare& p) const {
    return c.qk_norm ? std::optional(of_layer(p.layer)) : std::nullopt;
  }
  std::optional<int> operator()(const step::Attention& a) const {
    return c.qk_norm && a.fresh ? std::optional(of_layer(a.layer)) : std::nullopt;
  }
  std::optional<int> operator()(const step::Experts& e) const { return of_layer(e.layer); }
};

}  // namespace

StepUse use_of(const StepInstruction& instruction) { return std::visit(UseOf{}, instruction); }

std::optional<int> group_read(const StepInstruction& instruction, const ModelConfig& config) {
  return std::visit(GroupRead{config}, instruction);
}

}  // namespace causeway::model
