// Whether a GPU that serves would serve what is asked of it better if it were divided otherwise:
// what `--slices auto` does after its start (choose_slices.h decides that). Pure.
//
//   demand, measured ─▶ share_in_time() of each layout ─▶ better by `gain`, for `lasting`,
//                                                         `apart` from the last change ─▶ change
//
// A layout divides a GPU's processors and memory into equal parts. The model of it is simple, since
// only its order counts: models are spread over the parts by their load; a request misses its
// target if a step of its model alone takes longer there, or if its step and a chunk of another
// model's prompt on the same part do, and such a prompt comes while it answers; and of a part that
// is asked for more than it can do, only so much is in time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "slice/choose_slices.h"

namespace causeway::slice {

inline constexpr int kPartsMax = 2;  // of a GPU: what it may be divided into, as at the start

// What is asked of a model, as measured.
struct MeasuredDemand {
  SliceDemand model;
  double rate = 0;    // requests a second
  double prompt = 0;  // tokens of one, mean
  double output = 0;  // likewise
};

// The share of requests that keep their target on `parts` equal slices of the GPU; 1 where there
// are no requests. Zero: the weights of a model do not fit such a slice. `step_tokens`: the most
// tokens of a prompt in a step.
double share_in_time(const SliceGpu& gpu, int parts, std::span<const MeasuredDemand> models,
                     Tokens step_tokens);

struct LayoutRules {
  // The estimate is not better than this, and what is gained must outweigh a change: nothing is
  // answered for as long as that takes, a few seconds of `apart`.
  double gain = 0.1;
  Nanos lasting = seconds(10);  // a burst is over before slices have drained
  Nanos apart = seconds(60);
};

struct LayoutState {
  int parts = 1;       // as it is divided
  Nanos changed = {};  // when that was begun
  int better = 0;      // into how many it had better be; 0: it is well as it is
  std::optional<Nanos> better_since;
};

// Into how many parts the GPU is to be divided now; nullopt: as it is. A GPU whose speed is not
// known, or that cannot be divided, stays as it is. The caller that changes it sets `parts` and
// `changed`.
std::optional<int> choose_layout(LayoutState& state, const SliceGpu& gpu,
                                 std::span<const MeasuredDemand> models, Tokens step_tokens,
                                 const LayoutRules& rules, Nanos now);

// The slices of such a layout.
std::vector<SlicePart> parts_of(const SliceGpu& gpu, int ordinal, int parts);

}  // namespace causeway::slice
