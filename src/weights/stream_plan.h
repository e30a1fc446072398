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
  // A step can read it at home until it is cached, because it gathers only a few of its rows. Such
  // groups come last, and a streamed model never caches them.
  bool readable_at_home = false;
  // A step reads it twice, at its beginning and end, so a streamed model keeps it.
  bool stays = false;
  // The number of experts in the group's last two tensors, which can be cached one by one; 0: none.
  int experts = 0;
};

struct StreamOptions {
  Bytes extent;
  Bytes budget;     // of HBM, for resident groups and the ring
  Bytes ring = {};  // zero: three of the largest groups, but at most half of the budget
  ExpertPolicy experts = ExpertPolicy::kFrequency;  // for a model with experts
};

struct StreamedGroup {
  int layout_group = 0;
  Bytes offset;  // in the model's range
  Bytes bytes;
  // In the endless sequence of passes the group's copy may begin when the group this many places
  // before it has been consumed. From 1 to the number of groups.
  std::int64_t distance = 0;
};

// The extents [first, first + count) of the range are aliases of those of the ring from `ring` on.
struct ExtentAlias {
  std::int64_t first = 0;
  std::int64_t ring = 0;
  std::int64_t count = 0;
};

struct StreamPlan {
  std::vector<int> resident;          // the layout's groups that stay, in reading order
  std::vector<StreamedGroup> groups;  // in reading order
  std::vector<ExtentAlias> aliases;
  std::int64_t ring_first = 0;  // index of an extent of the range
  std::int64_t ring_extents = 0;
  Bytes bytes;  // of the streamed groups: these cross the link at every step
};

// kResourceExhausted, with the numbers: the budget is too small for the groups that must stay and
// the smallest ring, which holds two neighbouring groups. kInvalidArgument: all groups must stay,
// or share extents with those that must. At least one group is streamed even if all would fit, so
// the caller must decide whether to stream.
Result<StreamPlan> plan_stream(const WeightLayout& layout, std::span<const ReadingStep> reading,
                               const StreamOptions& options);

}  // namespace causeway::weights
