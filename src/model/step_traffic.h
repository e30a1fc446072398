// How often a step's products pass over their activations in HBM when weights are read at home: the
// coefficients γ_X and γ_O of C2CServe §6.3, by which a chunk's traffic is γ_X S_X + γ_O S_O. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"

namespace causeway::model {

struct ActivationPasses {
  double x = 1;    // γ_X: how often the products' inputs are read, relative to their size
  double out = 1;  // γ_O: how often outputs are written and read again
};

// For a step of `rows` rows: the products of all layers with weights, without those of experts.
// `sm_count`: of the slice, on which each product takes the way that the planner chooses without
// staging; 0: the CPU. Errors: those of home_gemm::choose().
Result<ActivationPasses> activation_passes(const ModelConfig& config, std::int64_t rows,
                                           int sm_count);

}  // namespace causeway::model
