// Root-mean-square normalisation on a GPU, bf16, fused with the residual's addition before it:
//
//   residual[r] += delta[r], rounded to bf16;  out[r] = residual[r] / sqrt(mean(residual[r]²) + ε)
//   × weight
//
// With `rows_wanted`, only these rows are taken (those that need logits), and the residual stays.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::rms_norm {

// All matrices are dense device memory, 16-byte aligned.
struct ParamsCuda {
  std::int64_t rows = 0;         // of out
  std::int64_t size = 0;         // multiple of 8, at most 32,768
  void* residual = nullptr;      // bf16 [tokens][size]; updated when delta is given
  const void* delta = nullptr;   // bf16 [tokens][size], or null
  const void* weight = nullptr;  // bf16 [size]
  float epsilon = 1e-5f;
  void* out = nullptr;                        // bf16 [rows][size]; may be delta, not residual
  const std::int32_t* rows_wanted = nullptr;  // [rows] which tokens; negative: out is not written
};

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::rms_norm
