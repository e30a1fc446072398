#include <algorithm>
#include <cstdint>

#include "kernels/gemm/even_shares.h"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::gemm {
namespace {

constexpr std::int64_t kManyRows = 16384;
constexpr std::int64_t kSizeMax = std::int64_t{1} << 31;

Status check(const CudaRequest& r, const CudaFacts& facts) {
  if (facts.sm_count <= 0) return invalid_argument("GEMM: no SMs");
  if (facts.sm_count > EvenShares::kCountMax) return invalid_argument("GEMM: too many SMs");
  if (r.m <= 0 || r.n <= 0 || r.k <= 0) return invalid_argument("GEMM: a size is not positive");
  if (r.m >= kSizeMax || 2 * r.n >= kSizeMax || r.k >= kSizeMax) {
    return invalid_argument("GEMM: a size is 2^31 or more");
  }
  if (r.out == CudaOut::kF32 && (r.residual || r.silu_mul)) {
    return invalid_argument("GEMM: f32 output goes with neither a residual nor silu_mul");
  }
  if (r.parts < 1 || r.parts > kPartsMax || r.k % r.parts != 0 ||
      (r.parts > 1 && (r.out != CudaOut::kF32 || r.bias || r.norm))) {
    return invalid_argument("GEMM: at most 2 parts, equal shares of k, f32, nothing added");
  }
  if (r.silu_mul && r.residual) {
    return invalid_argument("GEMM: silu_mul does not go with a residual");
  }
  return {};
}

int batch_of(std::int64_t m) {
  int batch = 8;
  while (batch < m) batch *= 2;
  return batch;
}

std::int64_t weight_rows(const CudaRequest& r) { return r.silu_mul ? 2 * r.n : r.n; }

bool fits_own(const CudaRequest& r) {
  return r.aligned && r.k % (kSplitStepK * r.parts) == 0 && (!r.silu_mul || r.n % 8 == 0);
}

// The share of the SMs' time that goes into rows of w that exist, for tiles of 16·blocks rows.
double balance(std::int64_t rows, int blocks, int sms) {
  const std::int64_t tile = 16 * blocks, tiles = ceil_div(rows, tile);
  return static_cast<double>(rows) / static_cast<double>(ceil_div(tiles, sms) * sms * tile);
}

Result<CudaPlan> plan_rows(CudaPlan plan, int sms) {
  const CudaRequest& r = plan.request;
  const bool norm_fits = !r.norm || (r.m <= kNormRowsMax && r.k % kRowsStepK == 0);
  if (!fits_own(r) || r.parts > 1 || r.m > kRowsMax || !norm_fits)
    return unsupported("GEMM: kRows cannot do this product");
  plan.batch = batch_of(r.m);
  const std::int64_t rows = weight_rows(r);
  // Larger tiles read x less often, which is worth some balance: CTAs with more to do than others
  // are faster once the others have ended.
  const double worth = r.m <= 8 ? 0.05 : 0.08;
  double best = -1;
  for (int blocks = kRowsBlocksMax; blocks >= 1; --blocks) {
    const double share = balance(rows, blocks, sms);
    if (share > best + worth) {
      best = share;
      plan.blocks = blocks;
    }
  }
  plan.tiles = static_cast<int>(ceil_div(rows, 16 * plan.blocks));
  const bool twice = plan.blocks == 1 && plan.batch == 8 && r.k % (2 * kRowsStepK) == 0;
  plan.step_k = twice ? 2 * kRowsStepK : kRowsStepK;
  plan.k_steps = static_cast<int>(ceil_div(r.k, plan.step_k));
  plan.ctas = sms;
  plan.workspace = kFlagBytes;
  return plan;
}

// Behind the flags and all that a product of parts itself takes.
Bytes parts_end(const CudaRequest& r) {
  return kFlagBytes + kLibraryBytes + Bytes(r.parts * r.m * r.n * 4);
}

std::int64_t split_tiles(const CudaRequest& r) {
  return ceil_div(weight_rows(r), kSplitRows) * r.parts;
}

// Whether the copy engine can store the sums: nothing is added, and rows are of 16 bytes.
bool stores_boxes(const CudaRequest& r) {
  return r.boxed && r.n % (r.out == CudaOut::kF32 ? 4 : 8) == 0 && !r.bias && !r.residual;
}

// Whether two CTAs can halve each tile's k: when all tiles have an SM twice.
bool halves_serve(const CudaRequest& r, int sms) {
  return fits_own(r) && stores_boxes(r) && !r.silu_mul && !r.norm && r.m > kRowsMax &&
         r.m <= kSplitMax && 2 * split_tiles(r) <= sms && r.k % (2 * r.parts * kSplitStepK) == 0;
}

std::int64_t split_steps(const CudaRequest& r) { return r.k / kSplitStepK / r.parts; }

// Whether tiles that are not halved have steps for the stages that a tile's end keeps, too.
bool keeps_stages(const CudaRequest& r) {
  return stores_boxes(r) && split_steps(r) >= kSplitKeptMax;
}

CudaPairs pairs_for(const CudaRequest& r, int sms) {
  if (halves_serve(r, sms)) return CudaPairs::kHalves;
  return r.m > kRowsMax && keeps_stages(r) && sms > 1 ? CudaPairs::kInputs : CudaPairs::kNone;
}

// Tiles, their steps and the CTAs that share them.
void deal_out(CudaPlan& plan, int sms) {
  const CudaRequest& r = plan.request;
  const auto tiles = static_cast<int>(split_tiles(r));
  const auto steps = static_cast<int>(split_steps(r));
  switch (plan.pairs) {
    case CudaPairs::kNone:
      plan.tiles = tiles;
      plan.k_steps = steps;
      plan.ctas = std::min(sms, tiles);
      return;
    case CudaPairs::kHalves:
      plan.tiles = tiles;
      plan.k_steps = steps / 2;
      plan.ctas = 2 * tiles;
      return;
    case CudaPairs::kInputs:
      plan.tiles = static_cast<int>(ceil_div(tiles / r.parts, 2) * r.parts);
      plan.k_steps = steps;
      plan.ctas = 2 * std::min(sms / 2, plan.tiles);
      return;
  }
}

Result<CudaPlan> plan_split(CudaPlan plan, int sms) {
  const CudaRequest& r = plan.request;
  if (!fits_own(r) || r.norm || r.m > kSplitMax || sms * 4 > kFlagBytes.count ||
      split_tiles(r) * split_steps(r) > EvenShares::kTotalMax) {
    return unsupported("GEMM: kSplit cannot do this product");
  }
  plan.pairs = pairs_for(r, sms);
  plan.batch = plan.pairs != CudaPairs::kHalves && r.m > 64 && r.m <= 96 ? 96 : batch_of(r.m);
  plan.step_k = kSplitStepK;
  deal_out(plan, sms);
  // Kernels of up to 16 rows are general ones.
  plan.boxes = plan.pairs != CudaPairs::kNone || (plan.batch == 32 && keeps_stages(r));
  // A part of the tile that a CTA begins in.
  plan.workspace = kFlagBytes + Bytes(std::int64_t{plan.ctas} * kSplitRows * plan.batch * 4);
  // Discarded parts lie behind what these sums may take.
  plan.drops = plan.pairs == CudaPairs::kInputs && r.silu_mul &&
               plan.workspace <= kFlagBytes + kLibraryBytes;
  if (r.parts > 1) plan.workspace = std::max(plan.workspace, parts_end(r));
  return plan;
}

Result<CudaPlan> plan_library(CudaPlan plan, int sms) {
  const CudaRequest& r = plan.request;
  if (!r.paired || r.norm) return unsupported("GEMM: kLibrary cannot do this product");
  plan.sm_count = sms;
  plan.workspace = kFlagBytes + kLibraryBytes;
  if (r.silu_mul) plan.workspace += Bytes(r.m * weight_rows(r) * 2);
  if (r.parts > 1) plan.workspace = parts_end(r);
  return plan;
}

}  // namespace

Result<CudaPlan> plan_for(CudaPath path, const CudaRequest& request, const CudaFacts& facts) {
  CAUSEWAY_TRY(check(request, facts));
  CudaPlan plan;
  plan.request = request;
  plan.path = path;
  switch (path) {
    case CudaPath::kRows: return plan_rows(plan, facts.sm_count);
    case CudaPath::kSplit: return plan_split(plan, facts.sm_count);
    case CudaPath::kLibrary: return plan_library(plan, facts.sm_count);
    case CudaPath::kPlain: break;
  }
  if (request.norm || request.parts > 1) {
    return unsupported("GEMM: kPlain neither normalises nor leaves parts");
  }
  plan.workspace = kFlagBytes;
  return plan;
}

namespace {

// Whether a product of 33 to 128 rows is faster with kSplit than with the library: of a large
// weight always, of another one where pairs of CTAs that halve k take most SMs. By steps of
// Llama-3.1-8B: these have no kernel for 96 rows, so at 80 the library is faster (down: 3,709 GB/s
// by pairs beside 3,655 at 72, 3,726 beside 3,707 at 80, 3,735 beside 3,750 at 96); qkv, which
// takes three quarters of the SMs, gains up to 64 rows.
bool split_best(const CudaRequest& r, int sms) {
  if (weight_rows(r) >= kManyRows) return true;
  if (!halves_serve(r, sms) || 3 * split_tiles(r) < sms) return false;
  return r.m <= 64 || (r.parts > 1 && r.m > 88);
}

}  // namespace

Result<CudaPlan> choose(const CudaRequest& request, const CudaFacts& facts) {
  CAUSEWAY_TRY(check(request, facts));
  CudaPath path = request.paired ? CudaPath::kLibrary : CudaPath::kPlain;
  if (fits_own(request) && request.m <= kRowsMax && request.parts == 1) {
    const bool large = weight_rows(request) >= kManyRows;
    path = request.m > 16 && large ? CudaPath::kSplit : CudaPath::kRows;
  } else if (fits_own(request) && request.m <= kSplitMax) {
    if (!request.paired || split_best(request, facts.sm_count)) path = CudaPath::kSplit;
  }
  return plan_for(path, request, facts);
}

int parts_wanted(const CudaRequest& r, const CudaFacts& facts) {
  if (r.m <= kRowsMax || r.m > kPartsRowsMax) return 1;
  if (!r.paired || r.bias || r.silu_mul || r.norm) return 1;
  if (r.k % (8 * kPartsMax) != 0) return 1;  // what TMA can address
  if (r.k > 2 * r.n) return kPartsMax;
  CudaRequest parts = r;
  parts.parts = kPartsMax;
  parts.out = CudaOut::kF32;
  parts.residual = false;
  const Result<CudaPlan> plan = choose(parts, facts);
  return plan.ok() && plan->pairs == CudaPairs::kHalves ? kPartsMax : 1;
}

bool fuses_norm(const CudaRequest& request, const CudaFacts& facts) {
  CudaRequest with = request;
  with.norm = true;
  return choose(with, facts).ok();
}

bool aligned(const CudaOperands& operands) {
  const auto fits = [](const void* pointer, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && stride % 8 == 0;
  };
  return fits(operands.x, operands.x_stride) && fits(operands.w, operands.w_stride) &&
         fits(operands.gains, 0);
}

bool boxed(const CudaOperands& operands, CudaOut type) {
  const std::int64_t in_16_bytes = type == CudaOut::kF32 ? 4 : 8;
  return reinterpret_cast<std::uintptr_t>(operands.out) % 16 == 0 &&
         operands.out_stride % in_16_bytes == 0;
}

bool paired(const CudaOperands& operands) {
  const auto fits = [](const void* pointer, std::int64_t stride) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && stride % 2 == 0;
  };
  return fits(operands.x, operands.x_stride) && fits(operands.w, operands.w_stride) &&
         fits(operands.out, operands.out_stride) &&
         (operands.residual == nullptr || fits(operands.residual, operands.residual_stride));
}

}  // namespace causeway::kernels::gemm
