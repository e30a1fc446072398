// Models of bf16 weights for slices of GPUs: small ones, or of Llama-3.2-3B's shape.
#pragma once

#include <vector>

#include "slice/cuda_slice.h"
#include "slice/testing/stress.h"

namespace causeway::slice::testing {

// Every second one shares its embedding with its head. The weights of a model are the same whenever
// they are filled, and their period is no multiple of a layer's size.
Catalogue bf16_catalogue(std::int64_t models, bool large, Tokens max_model_len = Tokens(1024));

// What a slice is told of them before it is opened.
std::vector<CudaCandidate> candidates_of(const Catalogue& catalogue);

}  // namespace causeway::slice::testing
