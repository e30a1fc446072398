// The gated activation of activation.h on a GPU, bf16.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/activation/activation.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::activation {

// Device memory, 16-byte aligned.
struct ParamsCuda {
  std::int64_t rows = 0;
  std::int64_t size = 0;          // multiple of 8
  const void* gate_up = nullptr;  // bf16 [rows][gate of size, up of size]
  void* out = nullptr;            // bf16 [rows][size]; does not overlap
  std::int64_t out_stride = 0;    // elements, a multiple of 8; 0: size
  Gate gate = Gate::kSilu;
};

// Errors: kInvalidArgument for sizes and strides that are no multiples of 8.

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::activation
