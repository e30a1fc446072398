// The gated activation of a Llama-like MLP: out = silu(gate) × up, silu(x) = x / (1 + e^-x).
#pragma once

#include <cstdint>

#include "kernels/cpu.h"

namespace causeway::kernels::activation {

struct Params {
  std::int64_t rows = 0;
  std::int64_t size = 0;
  const float* gate_up = nullptr;  // [rows][gate of size, up of size]
  float* out = nullptr;            // [rows][size]; does not overlap
  Variant variant = best_variant();
};

void run(const Params& params);

}  // namespace causeway::kernels::activation
