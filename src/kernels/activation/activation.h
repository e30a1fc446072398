// The gated activation of an MLP: out = f(gate) × up.
#pragma once

#include <cstdint>

#include "kernels/cpu.h"

namespace causeway::kernels::activation {

enum class Gate : std::uint8_t {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // ½x · (1 + tanh(√(2/π) · (x + 0.044715x³))), "gelu_pytorch_tanh"
};

struct Params {
  std::int64_t rows = 0;
  std::int64_t size = 0;
  const float* gate_up = nullptr;  // [rows][gate of size, up of size]
  float* out = nullptr;            // [rows][size]; does not overlap
  Gate gate = Gate::kSilu;
  Variant variant = best_variant();
};

void run(const Params& params);

}  // namespace causeway::kernels::activation
