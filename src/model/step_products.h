// The matrix products of a model's step on a GPU: how a model asks kernels/gemm, and what workspace
// that takes. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"
#include "model/config.h"

namespace causeway::model {

// The request with its alignments filled in: operands are dense, at addresses of 16 bytes.
kernels::gemm::CudaRequest dense(kernels::gemm::CudaRequest request);

// Whether the product, one that is added to the residual stream, had better be left in parts, which
// the next norm adds up.
bool leaves_parts(const kernels::gemm::CudaRequest& request, const kernels::gemm::CudaFacts& facts);

// The most workspace that any product of the model takes: `rows` rows through the layers, `sampled`
// through the head.
Result<Bytes> linear_workspace(const ModelConfig& config, std::int64_t rows, std::int64_t sampled,
                               int sm_count);

}  // namespace causeway::model
