// How a model lies in HBM that is larger than its share of it: which groups stay, and how the
// others pass through a ring (docs/design/streaming.md). Pure.
//
//   range │ extents of the layout: own memory │ alias │ own │ alias │ … ║ ring: R extents │
//         0                                                            N             N + R
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "weights/expert_policy.h"
#include "weights/weight_layout.h"

namespace causeway::weights {

// A group in the order in which a step reads it.
struct ReadingStep {
  int group = 0;  // of the weight layout
  // A step can read it at home until it is cached: it gathers a few of its rows. These come last,
  // and a streamed model never caches them.
  bool readable_at_home = false;
  // A step reads it twice, first and last: a streamed model keeps it.
  bool stays = false;
  // The group's last two tensors are those of so many experts, which can be cached one by one.
  int experts = 0;
};

struct StreamOptions {
  Bytes extent;
  Bytes budget;     // of HBM for resident groups and ring
  Bytes ring = {};  // zero: three of the largest groups, but no more than half of the budget
  ExpertPolicy experts = ExpertPolicy::kFrequency;  // of a model that has some
};

struct StreamedGroup {
  int layout_group = 0;
  Bytes offset;  // in the model's range
  Bytes bytes;
  // In the endless sequence of passes its copy may begin when the group so many places before it
  // has been consumed, 1 to the number of groups.
  std::int64_t distance = 0;
};

// Extents [first, first + count) of the range show those from `ring` on, which are of the ring.
struct ExtentAlias {
  std::int64_t first = 0;
  std::int64_t ring = 0;
  std::int64_t count = 0;
};

struct StreamPlan {
  std::vector<int> resident;          // layout groups that stay, in reading order
  std::vector<StreamedGroup> groups;  // in reading order
  std::vector<ExtentAlias> aliases;
  std::int64_t ring_first = 0;  // extent of the range
  std::int64_t ring_extents = 0;
  Bytes bytes;  // of the streamed groups: what crosses the link at every step
};

// kResourceExhausted, with the numbers: the budget is less than what must stay and the smallest
// ring, which holds two neighbouring groups; kInvalidArgument: all of its groups must stay, or lie
// in extents with those that must. Some group is streamed even where all would fit: it is for the
// caller to ask.
Result<StreamPlan> plan_stream(const WeightLayout& layout, std::span<const ReadingStep> reading,
                               const StreamOptions& options);

}  // namespace causeway::weights
