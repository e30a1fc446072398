#include "model/step_products.h"

#include <algorithm>
#include <vector>

#include "kernels/rms_norm/rms_norm_cuda.h"

namespace causeway::model {
namespace {

using kernels::gemm::CudaOut;
using kernels::gemm::CudaRequest;
using kernels::gemm::kPartsMax;

static_assert(kPartsMax == kernels::rms_norm::kParts);

// The largest workspace over all row counts that a step may have: the way changes with the rows,
// and so does what it takes.
Result<Bytes> most(CudaRequest request, std::int64_t rows_max, int sm_count) {
  Bytes largest;
  for (std::int64_t rows = 1; rows <= rows_max; rows = rows < 256 ? rows + 1 : 2 * rows) {
    for (const std::int64_t m : {rows, std::min(rows_max, 2 * rows - 1)}) {
      request.m = m;
      CAUSEWAY_ASSIGN(const auto plan, kernels::gemm::choose(request, {.sm_count = sm_count}));
      largest = std::max(largest, plan.workspace);
    }
  }
  return largest;
}

}  // namespace

CudaRequest dense(CudaRequest request) {
  const kernels::gemm::CudaOperands operands{.x_stride = request.k,
                                             .w_stride = request.k,
                                             .residual_stride = request.n,
                                             .out_stride = request.n};
  request.aligned = kernels::gemm::aligned(operands);
  request.paired = kernels::gemm::paired(operands);
  request.boxed = kernels::gemm::boxed(operands, request.out);
  return request;
}

bool leaves_parts(const CudaRequest& request, const kernels::gemm::CudaFacts& facts) {
  return request.n <= kernels::rms_norm::kPartsSizeMax &&
         kernels::gemm::parts_wanted(request, facts) > 1;
}

Result<Bytes> linear_workspace(const ModelConfig& c, std::int64_t rows, std::int64_t sampled,
                               int sm_count) {
  const std::int64_t q = c.heads * c.head_dim;
  std::vector<CudaRequest> requests = {
      {.n = q + 2 * c.kv_heads * c.head_dim, .k = c.hidden, .bias = c.attention_bias},
      {.n = c.hidden, .k = q, .bias = c.output_bias, .residual = true}};
  if (c.intermediate > 0) {
    requests.push_back({.n = c.intermediate, .k = c.hidden, .bias = c.mlp_bias, .silu_mul = true});
    requests.push_back({.n = c.hidden, .k = c.intermediate, .bias = c.mlp_bias, .residual = true});
  }
  if (c.activation != kernels::activation::Gate::kSilu) {
    requests.push_back({.n = 2 * c.intermediate, .k = c.hidden, .bias = c.mlp_bias});
  }
  if (c.output_norms) {
    requests.push_back({.n = c.hidden, .k = q, .bias = c.output_bias});
    requests.push_back({.n = c.hidden, .k = c.intermediate, .bias = c.mlp_bias});
  }
  if (c.moe) {
    requests.push_back({.n = c.moe->experts, .k = c.hidden, .out = CudaOut::kF32});
  }
  Bytes largest;
  const std::int64_t few = std::min(rows, kernels::gemm::kPartsRowsMax), any = 8 * kPartsMax;
  const CudaRequest parts{.n = c.hidden, .k = any, .out = CudaOut::kF32, .parts = kPartsMax};
  CAUSEWAY_ASSIGN(largest, most(parts, few, sm_count));
  for (const CudaRequest& request : requests) {
    CAUSEWAY_ASSIGN(const Bytes needed, most(request, rows, sm_count));
    largest = std::max(largest, needed);
  }
  // A weight that is read at home may go to cuBLASLt for any number of rows: gate and up lie behind
  // what that takes.
  const Bytes gated(rows * 2 * c.intermediate * 2);
  largest = std::max(largest, kernels::gemm::kFlagBytes + kernels::gemm::kLibraryBytes + gated);
  const CudaRequest head{.n = c.vocab, .k = c.hidden, .out = CudaOut::kF32};
  CAUSEWAY_ASSIGN(const Bytes needed, most(head, sampled, sm_count));
  return std::max(largest, needed);
}

}  // namespace causeway::model
