// Root-mean-square normalisation of rows: out = x / sqrt(mean(x²) + epsilon) × (offset + weight).
#pragma once

#include <cstdint>

#include "kernels/cpu.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::rms_norm {

// A "row" is what is normalised together: a token's activations, or one head of them. Rows come in
// `outer` groups of `inner`: row (o, i) begins at x + o × outer_stride + i × size.
struct Params {
  std::int64_t outer = 0;
  std::int64_t inner = 1;
  std::int64_t size = 0;
  const float* x = nullptr;
  std::int64_t x_outer_stride = 0;
  WeightsRef weight{};  // [size]
  float offset = 0;     // 1: of families whose weights are what is beyond 1 (Gemma)
  float epsilon = 1e-5f;
  float* out = nullptr;  // may be x
  std::int64_t out_outer_stride = 0;
  Variant variant = best_variant();
};

void run(const Params& params);

}  // namespace causeway::kernels::rms_norm
