// The resident-weight product for any alignment (CudaPath::kPlain).
#pragma once

#include "base/result.h"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::gemm {

Status run_plain(const CudaPlan& plan, const CudaOperands& operands, CudaStream stream);

}  // namespace causeway::kernels::gemm
