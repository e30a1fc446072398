#include <algorithm>

#include "kernels/gemm/chain_cuda.h"

namespace causeway::kernels::gemm {
namespace {

constexpr std::int64_t kSizeMax = std::int64_t{1} << 30;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Status check(const ChainShape& s) {
  if (s.n <= 0 || s.k <= 0 || s.n > kSizeMax || s.k > kSizeMax) {
    return invalid_argument("GEMM chain: a size is not from 1 to 2^30");
  }
  if (s.silu_mul && (s.residual || s.scales || s.out == CudaOut::kF32)) {
    return invalid_argument("GEMM chain: silu_mul goes with bf16 output and nothing else");
  }
  if (s.out == CudaOut::kF32 && (s.residual || s.scales)) {
    return invalid_argument("GEMM chain: f32 output goes with neither residual nor scaling");
  }
  if (s.n % 8 != 0 || s.k % kChainStepK != 0) {
    return unsupported("GEMM chain: n must be a multiple of 8 and k of 64");
  }
  return {};
}

// As many CTAs a tile as there are for it: few tiles of long rows are shared along k.
int splits_of(std::int64_t tiles, std::int64_t k_steps, int ctas) {
  const std::int64_t room = std::max<std::int64_t>(1, ctas / tiles);
  // A share below four steps costs more to add up than to read.
  const std::int64_t useful = std::max<std::int64_t>(1, k_steps / 4);
  return static_cast<int>(std::min({room, useful, std::int64_t{kChainSplitsMax}}));
}

}  // namespace

Result<ChainPlan> plan_chain(std::int64_t m, std::span<const ChainShape> shapes,
                             const CudaFacts& facts) {
  if (m <= 0 || shapes.empty() || facts.sm_count <= 0) {
    return invalid_argument("GEMM chain: no rows, no links or no SMs");
  }
  if (m > kChainRowsMax || shapes.size() > kChainLinksMax) {
    return unsupported("GEMM chain: at most 128 rows and 4 links");
  }
  ChainPlan plan;
  plan.m = m;
  plan.batch = m <= 64 ? 64 : 128;
  plan.ctas = facts.sm_count;
  int scaled = -1;
  std::int64_t units_max = 0;
  for (const ChainShape& shape : shapes) {
    CAUSEWAY_TRY(check(shape));
    if (shape.normed && scaled < 0) {
      return invalid_argument("GEMM chain: a normed link needs one in front that scales");
    }
    const std::int64_t rows = shape.silu_mul ? 2 * shape.n : shape.n;
    ChainLinkPlan& link = plan.links[static_cast<std::size_t>(plan.count)];
    link.tiles = static_cast<int>(ceil_div(rows, kChainTileRows));
    link.k_steps = static_cast<int>(shape.k / kChainStepK);
    link.splits = splits_of(link.tiles, link.k_steps, plan.ctas);
    link.squares_from = shape.normed ? scaled : -1;
    const std::int64_t units = std::int64_t{link.tiles} * link.splits;
    if (link.splits > 1) units_max = std::max(units_max, units);
    if (shape.scales) {
      scaled = plan.count;
      // A slice of squares a unit; with 64 rows the two warpgroups have slices of their own.
      const std::int64_t slices = units * (plan.batch == 64 ? 2 : 1);
      plan.squares = std::max(plan.squares, Bytes(slices * plan.batch * 4));
    }
    plan.shapes[static_cast<std::size_t>(plan.count)] = shape;
    ++plan.count;
  }
  plan.partials = Bytes(units_max * plan.batch * kChainTileRows * 4);
  plan.workspace = kCounterBytes + plan.partials + plan.squares * plan.count;
  return plan;
}

}  // namespace causeway::kernels::gemm
