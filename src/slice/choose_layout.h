// Decides whether a serving GPU would serve the present demand better if it were divided otherwise:
// what `--slices auto` does after the start (choose_slices.h decides at the start). Pure.
//
//   demand, measured ─▶ share_in_time() of each layout ─▶ better by `gain`, for `lasting`,
//                                                         `apart` from the last change ─▶ change
//
// A layout divides a GPU's processors and memory into equal parts. The model of a layout is simple,
// because only the order of layouts matters. Models are spread over the parts by load. A request
// misses its target if a step of its model alone takes longer, or if its step together with a chunk
// of another model's prompt on the same part does and such a prompt arrives while it is answered.
// On a part with more demand than it can serve, only the share that it can serve is in time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "slice/choose_slices.h"

namespace causeway::slice {

inline constexpr int kPartsMax = 2;  // into how many parts a GPU may be divided, as at the start

// The measured demand for a model.
struct MeasuredDemand {
  SliceDemand model;
  double rate = 0;    // requests per second
  double prompt = 0;  // mean tokens of a prompt
  double output = 0;  // mean tokens of an answer
};

// The share of requests that keep their targets on `parts` equal slices of the GPU; 1 when there
// are no requests. Zero: the weights of some model do not fit such a slice. `step_tokens`: the most
// prompt tokens in a step.
double share_in_time(const SliceGpu& gpu, int parts, std::span<const MeasuredDemand> models,
                     Tokens step_tokens);

struct LayoutRules {
  // What a change must gain. The estimate is not more exact than this, and a change costs a few
  // seconds of `apart` in which nothing is answered.
  double gain = 0.1;
  // How long it must stay better, because a burst is over before slices have drained.
  Nanos lasting = seconds(10);
  Nanos apart = seconds(60);
};

struct LayoutState {
  int parts = 1;       // the present division
  Nanos changed = {};  // when the last change began
  int better = 0;      // into how many parts it should be divided; 0: as it is
  std::optional<Nanos> better_since;
};

// Into how many parts to divide the GPU now; nullopt: no change. A GPU whose speed is unknown, or
// that cannot be divided, is not changed. After a change the caller sets `parts` and `changed`.
std::optional<int> choose_layout(LayoutState& state, const SliceGpu& gpu,
                                 std::span<const MeasuredDemand> models, Tokens step_tokens,
                                 const LayoutRules& rules, Nanos now);

// The slices of such a layout.
std::vector<SlicePart> parts_of(const SliceGpu& gpu, int ordinal, int parts);

}  // namespace causeway::slice
