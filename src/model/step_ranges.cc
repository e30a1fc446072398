#include "model/step_ranges.h"

#include "model/model_card.h"

namespace causeway::model {
namespace {

const weights::WeightView& view_of(weights::StepWeights where, int group) {
  return where[static_cast<std::size_t>(group)];
}

bool streams(weights::StepWeights where, int group) {
  return !where.empty() && view_of(where, group).consumed != nullptr;
}

bool there(weights::StepWeights where, int group) {
  if (where.empty()) return true;
  const weights::WeightView& view = view_of(where, group);
  return view.place != weights::WeightPlace::kStaged ||
         device::reached(view.ready->value(), view.value);
}

}  // namespace

std::vector<StepRange> step_ranges(const ModelConfig& config, weights::StepWeights where) {
  std::vector<StepRange> ranges;
  bool open = false;  // the last range takes another layer
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool alone = streams(where, layer_group(layer));
    if (!alone && open && ranges.back().end - ranges.back().first < kRangeLayers) {
      ranges.back().end = layer + 1;
    } else {
      ranges.push_back({.first = layer, .end = layer + 1});
    }
    open = !alone;
  }
  ranges.front().front = true;
  if (streams(where, head_group(config))) {
    ranges.push_back({.first = config.layers, .end = config.layers});
  }
  ranges.back().head = true;
  return ranges;
}

bool has_arrived(const StepRange& range, const ModelConfig& config, weights::StepWeights where) {
  for (std::int64_t layer = range.first; layer < range.end; ++layer) {
    if (!there(where, layer_group(layer))) return false;
  }
  return !range.head || (there(where, head_group(config)) &&
                         (!config.tied_embeddings || there(where, kEmbeddingGroup)));
}

}  // namespace causeway::model
