// How a mixture of experts lies in HBM that is larger than its share of it: the dense part stays,
// the rest of the budget is slots, each for one expert of any layer (docs/design/experts.md). Pure.
//
//   range │ dense parts of all groups ░░ │ slot 0 │ slot 1 │ … ░░ │ (embedding: without memory)
//         0                              ^ whole extents ─────────^
//   slot  │ gate, up [2 × intermediate][hidden] │ down [hidden][intermediate] │
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weights/stream_plan.h"
#include "weights/weight_layout.h"

namespace causeway::weights {

// A layer whose experts are cached one by one.
struct ExpertLayer {
  int group = 0;  // of the weight layout
  // The first expert's offset from the model's home; the other experts follow it.
  Bytes gate_up;
  Bytes down;
};

struct ExpertPlan {
  // The model's groups and tensors without experts, at their places in the range. A group whose
  // rows a step gathers at home has no memory there.
  WeightLayout layout;
  std::vector<int> resident;        // the groups that stay, in reading order
  std::vector<Bytes> home;          // by index of `resident`: where the group begins at home
  std::vector<ExpertLayer> layers;  // in reading order
  int experts = 0;                  // in one layer
  Bytes gate_up;                    // bytes of one expert
  Bytes down;
  Bytes slots_offset;  // in the range; the start of an extent
  Bytes slot_bytes;    // from one slot to the next
  std::int64_t slots = 0;

  Bytes slots_end() const { return slots_offset + slot_bytes * slots; }
  Bytes slot(std::int64_t index) const { return slots_offset + slot_bytes * index; }
  Bytes expert_bytes() const { return gate_up + down; }
};

// The experts must be the last two tensors of their groups, those whose ReadingStep has experts.
// kInvalidArgument: no group has experts; kResourceExhausted, with the numbers: the budget is too
// small for the dense parts and one slot.
Result<ExpertPlan> plan_experts(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                const StreamOptions& options);

}  // namespace causeway::weights
