// Sines and cosines on a GPU, once a step for all layers; what rotates q and k by them is
// attention::prepare, fused with what comes before and after.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::rope {

// Device memory. In double precision, as rope.h says why.
struct TableCuda {
  std::int64_t tokens = 0;
  std::int64_t size = 0;                // of a head
  const double* frequencies = nullptr;  // [pairs], rope.h's
  std::int64_t pairs = 0;               // that are rotated: at most size / 2
  double amplitude = 1;
  const std::int32_t* position = nullptr;  // [tokens]; negative: no token here
  float* out = nullptr;                    // [tokens][cosines of size / 2, sines of size / 2]
};

Status fill_table(const TableCuda& params, CudaStream stream);

}  // namespace causeway::kernels::rope
