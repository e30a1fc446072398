// A step of a streamed model as a list of ranges of layers, each enqueued when its weights are
// there (docs/design/streaming.md). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "weights/weight_layout.h"

namespace causeway::model {

// Layers that one range has at the most: other models' steps run between two ranges.
inline constexpr std::int64_t kRangeLayers = 4;

struct StepRange {
  std::int64_t first = 0;  // layers [first, end)
  std::int64_t end = 0;
  bool front = false;  // begins with the embedding and what all layers need
  bool head = false;   // ends with the head

  friend bool operator==(const StepRange&, const StepRange&) = default;
};

// In order; every layer once. A layer that passes through the ring is a range of its own, and so is
// the head if it does; resident neighbours go together.
std::vector<StepRange> step_ranges(const ModelConfig& config, weights::StepWeights where);

// Whether everything is there that the range reads.
bool has_arrived(const StepRange& range, const ModelConfig& config, weights::StepWeights where);

}  // namespace causeway::model
