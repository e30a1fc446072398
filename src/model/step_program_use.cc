// What instructions of a step read and write.
#include "kernels/gemm/gemm_cuda.h"
#include "model/model_card.h"
#include "model/step_program.h"

namespace causeway::model {
namespace {

constexpr StepBuffers kX = set_of(StepBuffer::kX), kNormed = set_of(StepBuffer::kNormed),
                      kQkv = set_of(StepBuffer::kQkv), kAttended = set_of(StepBuffer::kAttended),
                      kScores = set_of(StepBuffer::kScores), kParts = set_of(StepBuffer::kParts),
                      kRope = set_of(StepBuffer::kRope), kKv = set_of(StepBuffer::kKv),
                      kAdded = set_of(StepBuffer::kAdded), kLogits = set_of(StepBuffer::kLogits);

StepBuffers when(bool condition, StepBuffers buffers) { return condition ? buffers : 0; }

StepBuffers plan_of(bool windowed) {
  return windowed ? set_of(StepBuffer::kWindowPlan) : set_of(StepBuffer::kPlan);
}

StepBuffers rope_of(bool local) { return local ? set_of(StepBuffer::kLocalRope) : kRope; }

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
  StepUse operator()(const step::PlanAttention& p) const { return {.writes = plan_of(p.windowed)}; }
  StepUse operator()(const step::FillRope& f) const { return {.writes = rope_of(f.local)}; }
  StepUse operator()(const step::Embed&) const { return {.writes = kX}; }
  // Parts that were added must not be added again, though they stay.
  StepUse operator()(const step::Norm& n) const {
    const bool joins = n.join.has_value();
    return {.reads = kX | when(n.parts, kParts) | when(joins, kAdded),
            .writes = when(!n.sum_only, kNormed) | when(n.parts || joins, kX),
            .ended = dropped(n.drops) | when(n.parts, kParts) | when(joins, kAdded)};
  }
  StepUse operator()(const step::Activate&) const {
    return {.reads = set_of(StepBuffer::kGateUp), .writes = set_of(StepBuffer::kActive)};
  }
  StepUse operator()(const step::CapLogits&) const { return {.reads = kLogits, .writes = kLogits}; }
  StepUse operator()(const step::Product& p) const {
    const kernels::gemm::CudaRequest& request = p.plan.request;
    // The library's gate and up lie where parts do, until SiLU has read them; so may HybridGEMM's.
    const bool over_parts =
        request.silu_mul && (p.home >= 0 || p.plan.path == kernels::gemm::CudaPath::kLibrary);
    return {.reads = set_of(p.x) | when(request.residual, set_of(p.out)),
            .writes = set_of(p.out),
            .ended = dropped(p.drops) | when(over_parts, kParts)};
  }
  StepUse operator()(const step::Prepare& p) const {
    return {.reads = kQkv | rope_of(p.local_rope), .writes = kQkv | kKv};
  }
  StepUse operator()(const step::Attention& a) const {
    return {.reads = kQkv | when(a.prompts || !a.fused_prepare, kKv) |
                     when(a.fused_prepare, rope_of(a.local_rope)) |
                     when(a.planned, plan_of(a.windowed)),
            .writes = kAttended | when(a.fused_prepare, kKv)};
  }
  StepUse operator()(const step::Experts& e) const {
    return {.reads = kX | when(!e.front, kNormed | kScores), .writes = kX};
  }
};

struct GroupsRead {
  const ModelConfig& c;
  using Groups = std::vector<int>;

  int of_layer(std::int64_t layer) const { return layer_group(layer); }
  template <typename Other>
  Groups operator()(const Other&) const {
    return {};
  }
  Groups operator()(const step::Embed& e) const {
    return e.at_home ? Groups{} : Groups{kEmbeddingGroup};
  }
  Groups operator()(const step::Norm& n) const {
    Groups groups;
    if (!n.sum_only) {
      groups.push_back(n.weight == StepWeight::kNorm ? head_group(c) : of_layer(n.layer));
    }
    if (n.join) groups.push_back(of_layer(n.join->layer));
    return groups;
  }
  Groups operator()(const step::Product& p) const {
    if (p.weight != StepWeight::kHead) return {of_layer(p.layer)};
    return {c.tied_embeddings ? kEmbeddingGroup : head_group(c)};
  }
  Groups operator()(const step::Prepare& p) const {
    return c.qk_norm ? Groups{of_layer(p.layer)} : Groups{};
  }
  Groups operator()(const step::Attention& a) const {
    return c.qk_norm && a.fused_prepare ? Groups{of_layer(a.layer)} : Groups{};
  }
  Groups operator()(const step::Experts& e) const { return {of_layer(e.layer)}; }
};

}  // namespace

StepUse use_of(const StepInstruction& instruction) { return std::visit(UseOf{}, instruction); }

std::vector<int> groups_read(const StepInstruction& instruction, const ModelConfig& config) {
  return std::visit(GroupsRead{config}, instruction);
}

}  // namespace causeway::model
