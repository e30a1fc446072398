#include "kernels/home_gemm/traffic.h"

#include <algorithm>

#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::home_gemm {
namespace {

// How often all of w crosses the link.
std::int64_t crossings(const gemm::CudaRequest& r, const TrafficOf& of) {
  switch (of.way) {
    case Way::kStaged:
    case Way::kRing:
    case Way::kFewRows: return 1;
    case Way::kSymmetric:
      return ceil_div(r.m, std::int64_t{hybrid_gemm::kStreamRows} * of.cluster_ctas);
    case Way::kLibrary: return ceil_div(r.m, kLibraryRows);
  }
  return 1;
}

}  // namespace

Bytes weight_bytes(const gemm::CudaRequest& r) {
  return Bytes((r.silu_mul ? 2 : 1) * r.n * r.k * 2);
}

Traffic traffic(const gemm::CudaRequest& r, const TrafficOf& of) {
  const std::int64_t w = weight_bytes(r).count, x = r.m * r.k * 2;
  const std::int64_t out = r.m * r.n * (r.out == gemm::CudaOut::kF32 ? 4 : 2);
  std::int64_t x_moved = x, out_moved = out + (r.residual ? out : 0), weight_moved = 0;
  if (of.way == Way::kStaged) {
    weight_moved = 2 * w;  // written by the copy engine, read by the product
    if (x > kL2Bytes) x_moved = x * std::max<std::int64_t>(of.pieces, 1);
  }
  // Gate and up side by side, written and read back.
  const bool apart = of.way == Way::kSymmetric || of.way == Way::kRing || of.way == Way::kLibrary;
  if (r.silu_mul && apart) out_moved += 4 * out;
  if (of.way == Way::kRing) weight_moved = w;  // written into the ring; L2 serves its readers
  return {.link = Bytes(w * crossings(r, of)),
          .hbm = Bytes(x_moved + out_moved + weight_moved),
          .x = Bytes(x_moved),
          .out = Bytes(out_moved)};
}

}  // namespace causeway::kernels::home_gemm
