// Memory that is not read any more is dropped from L2, so that it is not written to HBM: an
// intermediate result lies in L2, changed, until what streams through L2 drives it out, and those
// writes come between the stream's reads. At 128 sequences of Llama-3.1-8B they were 27 MB a layer
// beside 974 MB of reads, and 7 MB of them made attention 10 µs of 125 longer
// (docs/design/kernels.md).
//
// What is dropped is undefined until it is written again. A kernel must not read it in between, nor
// must one that reads early, before its predecessor has written. The last readers must be done when
// it is dropped: by the order of the stream, or by a barrier.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/l2_discard.h"

namespace causeway::kernels {

// `line`: 128 bytes, so aligned.
__device__ __forceinline__ void discard_line(const void* line) {
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
}

// Drops the share of thread `index` of `all`.
__device__ __forceinline__ void discard(const DiscardLines& lines, unsigned index, unsigned all) {
#pragma unroll 1
  for (unsigned i = index; i < static_cast<unsigned>(lines.count); i += all) {
    discard_line(lines.first + static_cast<std::int64_t>(i) * kDiscardLineBytes);
  }
}

// Each thread of a grid along x its share.
__device__ __forceinline__ void discard(const DiscardLines& lines) {
  discard(lines, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

}  // namespace causeway::kernels
