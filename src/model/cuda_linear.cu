#include "model/cuda_linear.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace causeway::model {
namespace {

using kernels::gemm::CudaOperands;
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

CudaOperands operands_of(const CudaLinear& linear) {
  return {.x = linear.x,
          .w = linear.w.data,
          .bias = linear.bias.data,
          .residual = linear.residual,
          .out = linear.out,
          .x_stride = linear.k,
          .w_stride = linear.k,
          .residual_stride = linear.n,
          .out_stride = linear.n};
}

CudaRequest request_of(const CudaLinear& linear, std::int64_t rows, const CudaOperands& operands) {
  return {.m = rows,
          .n = linear.n,
          .k = linear.k,
          .out = linear.type,
          .bias = static_cast<bool>(linear.bias),
          .residual = linear.residual != nullptr,
          .silu_mul = linear.silu_mul,
          .parts = linear.parts,
          .share = linear.share,
          .aligned = kernels::gemm::aligned(operands),
          .paired = kernels::gemm::paired(operands),
          .boxed = kernels::gemm::boxed(operands, linear.type)};
}

kernels::Spent spent_parts(const CudaLinear& linear, std::int64_t rows) {
  if (linear.norm.parts == nullptr) return {};
  return {linear.norm.parts, kPartsMax * rows * linear.k * 4};
}

// x's norm by a kernel in front of the product. What is spent is dropped by the product where that
// can: beside its stream it costs nothing, and the norm runs alone.
Status normalise(const CudaLinear& linear, const kernels::gemm::CudaPlan& plan,
                 CudaOperands& operands, kernels::CudaStream stream) {
  const CudaNorm& norm = linear.norm;
  const std::int64_t rows = plan.request.m;
  operands.x = norm.scratch;
  if (plan.drops) {
    operands.spent = norm.spent;
    CAUSEWAY_CHECK(operands.spent.back().bytes == 0);  // the place of the parts
    operands.spent.back() = spent_parts(linear, rows);
  }
  return kernels::rms_norm::run({.rows = rows,
                                 .size = linear.k,
                                 .x = linear.x,
                                 .weight = norm.weight.data,
                                 .epsilon = norm.epsilon,
                                 .out = norm.scratch,
                                 .parts = norm.parts,
                                 .parts_stay = plan.drops,
                                 .tokens = rows,
                                 .sum = norm.sum,
                                 .spent = plan.drops ? kernels::SpentList{} : norm.spent},
                                stream);
}

}  // namespace

Result<Bytes> linear_workspace(const ModelConfig& c, std::int64_t rows, std::int64_t sampled,
                               int sm_count) {
  const std::int64_t q = c.heads * c.head_dim;
  std::vector<CudaRequest> requests = {
      {.n = q + 2 * c.kv_heads * c.head_dim, .k = c.hidden, .bias = c.attention_bias},
      {.n = c.hidden, .k = q, .bias = c.attention_bias, .residual = true}};
  if (c.intermediate > 0) {
    requests.push_back({.n = c.intermediate, .k = c.hidden, .bias = c.mlp_bias, .silu_mul = true});
    requests.push_back({.n = c.hidden, .k = c.intermediate, .bias = c.mlp_bias, .residual = true});
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
  const CudaRequest head{.n = c.vocab, .k = c.hidden, .out = CudaOut::kF32};
  CAUSEWAY_ASSIGN(const Bytes needed, most(head, sampled, sm_count));
  return std::max(largest, needed);
}

bool leaves_parts(const CudaLinear& linear, std::int64_t rows, int sm_count) {
  if (linear.n > kernels::rms_norm::kPartsSizeMax) return false;
  return kernels::gemm::parts_wanted(request_of(linear, rows, operands_of(linear)),
                                     {.sm_count = sm_count}) > 1;
}

bool by_library(const CudaLinear& linear, std::int64_t rows, int sm_count) {
  if (linear.silu_mul || fuses_norm(linear, rows, sm_count)) return false;
  const auto plan =
      kernels::gemm::choose(request_of(linear, rows, operands_of(linear)), {.sm_count = sm_count});
  return plan.ok() && plan->path == kernels::gemm::CudaPath::kLibrary;
}

bool fuses_norm(const CudaLinear& linear, std::int64_t rows, int sm_count) {
  if (!linear.norm.weight || linear.norm.parts != nullptr) return false;
  CudaOperands operands = operands_of(linear);
  operands.gains = linear.norm.weight.data;
  return kernels::gemm::aligned(operands) &&
         kernels::gemm::fuses_norm(request_of(linear, rows, operands), {.sm_count = sm_count});
}

Status run_linear(const CudaLinear& linear, std::int64_t rows, int sm_count,
                  kernels::gemm::CudaGemm& gemm, void* workspace, kernels::CudaStream stream) {
  CudaOperands operands = operands_of(linear);
  CudaRequest request = request_of(linear, rows, operands);
  request.norm = fuses_norm(linear, rows, sm_count);
  CAUSEWAY_ASSIGN(const auto plan, kernels::gemm::choose(request, {.sm_count = sm_count}));
  if (request.norm) {
    operands.gains = linear.norm.weight.data;
    operands.epsilon = linear.norm.epsilon;
  } else if (linear.norm.weight) {
    CAUSEWAY_TRY(normalise(linear, plan, operands, stream));
  }
  return gemm.run(plan, operands, workspace, stream, kernels::gemm::Overlap::kYes);
}

}  // namespace causeway::model
