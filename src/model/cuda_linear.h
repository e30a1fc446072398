// The matrix products of a model on a GPU: which shapes there are, and what workspace they need.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/spent.h"
#include "kernels/weights_ref.h"
#include "model/config.h"

namespace causeway::model {

// RMSNorm of x before the product. Either the product does it on the way, or x's norm goes to
// `scratch` first.
struct CudaNorm {
  kernels::WeightsRef weight;  // bf16 [k]; null: no norm
  float epsilon = 0;
  void* scratch = nullptr;  // bf16 [rows][k]
  // What is still to be added to x, and the place of the sum (rms_norm_cuda.h): by a norm of its
  // own.
  float* parts = nullptr;
  void* sum = nullptr;
  kernels::SpentList spent = {};  // dropped by a norm of its own, or by the product
};

// out [rows][n] = norm(x [rows][k]) · wᵀ (+ bias) (+ residual), or silu(gate) ⊙ up of stacked w.
struct CudaLinear {
  const void* x = nullptr;  // bf16, dense
  std::int64_t k = 0;
  CudaNorm norm;
  kernels::WeightsRef w;  // bf16 in device memory
  kernels::WeightsRef bias;
  std::int64_t n = 0;  // columns of out
  bool silu_mul = false;
  const void* residual = nullptr;  // bf16, dense; may be out
  void* out = nullptr;             // dense
  kernels::gemm::CudaShare share = kernels::gemm::CudaShare::kLess;
  kernels::gemm::CudaOut type = kernels::gemm::CudaOut::kBF16;
  int parts = 1;  // 2: out is f32 [2][rows][n], without bias and residual (gemm_cuda.h)
};

// The most workspace that any product of the model takes: `rows` rows through the layers, `sampled`
// through the head.
Result<Bytes> linear_workspace(const ModelConfig& config, std::int64_t rows, std::int64_t sampled,
                               int sm_count);

// Whether the product had better be left in parts, which the next norm adds up.
bool leaves_parts(const CudaLinear& linear, std::int64_t rows, int sm_count);

// Whether run_linear() ends with a kernel of the library (LaunchShape::behind_library): not with
// silu_mul, which ends with SiLU.
bool by_library(const CudaLinear& linear, std::int64_t rows, int sm_count);

// Whether run_linear() makes the norm part of the product, so that no kernel stands in front.
bool fuses_norm(const CudaLinear& linear, std::int64_t rows, int sm_count);

Status run_linear(const CudaLinear& linear, std::int64_t rows, int sm_count,
                  kernels::gemm::CudaGemm& gemm, void* workspace, kernels::CudaStream stream);

}  // namespace causeway::model
