// What a product whose weight is at home moves, by way: the traffic model (the paper's Fig. 4(b)).
// Pure. Counted are bytes that a way must move by its design:
//
//   over the link   w, as often as the way fetches it
//   HBM             x read, out written, a residual read, and of a staged weight what is written
//                   to HBM and read back; what L2 serves is not counted
//
// The planner's estimate of a way that was never measured follows from it, and so do a benchmark's
// GB/s.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/home_gemm/way.h"

namespace causeway::kernels::home_gemm {

struct Traffic {
  Bytes link;
  Bytes hbm;
  // The activations' part of `hbm`: x read; out written, what is read of it again, and what lies
  // beside it before it is multiplied.
  Bytes x;
  Bytes out;
};

// Rows of x for which cuBLASLt fetches w once: its row tile, as the paper's Fig. 4 has it. On an
// H200 it fetched 1 to 40 times for 256 to 10,240 rows.
inline constexpr std::int64_t kLibraryRows = 256;
inline constexpr std::int64_t kL2Bytes = std::int64_t{50} << 20;  // of a GPU of Hopper's kind

// Bytes of the product's weight: [n][k], or [2n][k] for silu_mul.
Bytes weight_bytes(const gemm::CudaRequest& request);

// `pieces`: kStaged, into how many the weight is cut (x is read again for each where L2 cannot hold
// it). `cluster_ctas`: kSymmetric, CTAs that share a fetched tile.
struct TrafficOf {
  Way way = Way::kLibrary;
  std::int64_t pieces = 1;
  int cluster_ctas = 1;
};
Traffic traffic(const gemm::CudaRequest& request, const TrafficOf& of);

}  // namespace causeway::kernels::home_gemm
