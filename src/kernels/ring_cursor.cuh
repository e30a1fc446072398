// Where a thread is in a ring of stages of shared memory: the stage, and the parity of the phase
// that its barriers are in.
#pragma once

#include <cstdint>

#include "kernels/ptx/device.cuh"

namespace causeway::kernels {

// A place in a ring of `count` stages.
struct RingCursor {
  uint32_t count;
  uint32_t stage = 0, phase = 0;

  CAUSEWAY_DEVICE void advance() {
    if (++stage == count) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// The same for a count that the compiler knows.
template <uint32_t kCount>
struct FixedRingCursor {
  uint32_t stage = 0, phase = 0;

  CAUSEWAY_DEVICE void advance() {
    if (++stage == kCount) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace causeway::kernels
