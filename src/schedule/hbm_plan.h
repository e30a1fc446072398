// How a slice's HBM is divided when it opens (docs/decisions/0010-hbm-is-one-estate.md). Pure.
//
//   total │ used by others │ KV │ weights │ workspace │ driver │ kept free (1 - utilization) │
//
// The workspace gets what it needs. Weights are cached: they get the asked size, or the size of all
// models up to a share of what is left, but at least room for the largest. KV gets the asked size
// or the rest. All three are whole extents of the arena. The driver's part is the memory that it
// takes by itself while kernels run.
//
// A slice that is a part of the GPU gets its share of the memory that is neither "kept free" nor
// used by others. The process's other slices do not count as others, so that the order in which
// slices are opened makes no difference.
//
// If no size was asked for, the border between weights and KV moves while the slice serves
// (hbm_border.h), within the plan's bounds: KV keeps a quarter of what it gets here, and always
// leaves room for the largest model beside the pinned ones.
#pragma once

#include "base/result.h"
#include "base/units.h"

namespace causeway::schedule {

struct HbmDemand {
  Bytes total;               // of the GPU
  Bytes free;                // of it, now
  double share = 1;          // of the GPU that is the slice's, in (0, 1]
  Bytes neighbours = {};     // what the process's other slices have of it, in use
  double utilization = 0.9;  // of the total that all users together may take, in (0, 1]
  Bytes extent;
  Bytes workspace;
  Bytes weights;          // of all models that are to be served
  Bytes weights_largest;  // of one of them
  Bytes weights_pinned;   // of those of them that are never evicted
  Bytes weights_wanted;   // for all that are cached at the same time; zero: the plan's choice
  Bytes driver;           // an estimate of what code and graphs will take beside the arena
  Bytes kv;               // wanted for KV; zero: what is left
  Bytes kv_min;           // the least that makes sense: a frame
};

struct HbmPlan {
  Bytes budget;     // what the slice may take in all
  Bytes workspace;  // in whole extents, as the others
  Bytes weights;
  Bytes kv;
  Bytes kv_least;  // the least that the border leaves it
  Bytes kv_most;   // the most that the border gives it

  bool border_moves() const { return kv_least < kv || kv_most > kv; }
  // The most bytes that weights may get.
  Bytes weights_most() const { return weights + kv - kv_least; }
};

// The most that the weights of one model may take: the plan's size for weights if all models
// together were larger. Whole extents; zero where KV and workspace leave none.
Bytes weights_room(const HbmDemand& demand);

// kInvalidArgument: a utilization or share outside (0, 1]. kResourceExhausted: the parts do not
// fit; the message has all the numbers, and what to change.
Result<HbmPlan> plan_hbm(const HbmDemand& demand);

}  // namespace causeway::schedule
