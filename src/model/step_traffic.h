// How often a step's products pass over their activations in HBM when weights are read at home: the
// coefficients γ_X and γ_O of C2CServe §6.3, by which a chunk's traffic is γ_X S_X + γ_O S_O. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"

namespace causeway::model {

struct ActivationPasses {
  double x = 1;    // γ_X: reads of all products' inputs, in their own size
  double out = 1;  // γ_O: writes of all outputs, and what is read of them again
};

// Of a step of so many rows: the products of all layers with weights, less those with experts.
// `sm_count`: of the slice, where each goes the way that the planner takes without staging; 0: on
// the CPU. Errors: those of home_gemm::choose().
Result<ActivationPasses> activation_passes(const ModelConfig& config, std::int64_t rows,
                                           int sm_count);

}  // namespace causeway::model
