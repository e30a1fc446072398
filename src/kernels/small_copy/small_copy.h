// Copies of some kilobytes by a kernel, between a GPU's memory and itself or pinned host memory
// that it reaches: a step's tables and the tokens that it chose. Not by a copy engine: that one may
// be busy for milliseconds with weights, which such a copy would wait for, and hold up
// (docs/design/residency.md).
#pragma once

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::small_copy {

// Both ends as the device sees them, at multiples of 4 bytes, not overlapping.
struct ParamsCuda {
  void* target = nullptr;
  const void* source = nullptr;
  Bytes bytes;  // a multiple of 4; none: nothing is enqueued
};

// Enqueued. kInvalidArgument for addresses or sizes that are no multiples of 4.
Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::small_copy
