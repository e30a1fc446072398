// The matrix product of gemm (gemm/gemm_cuda.h) when its weight is not in this GPU's HBM but at
// home: in mapped host memory, or in a peer GPU's HBM. The door for both is choose(): it says by
// which way the product is computed, with all parameters, and run() of home_gemm_cuda.h executes
// that and decides nothing.
//
//   kStaged     copy engines bring pieces of w, cut along n, into scratch in HBM, and each is
//               multiplied by gemm when it has arrived, while the next ones are on their way
//   kSymmetric  HybridGEMM, α = 1: clusters share tiles of w, read at home (hybrid_gemm.h)
//   kRing       HybridGEMM, α = 0: some SMs bring w through a ring in HBM
//   kFewRows    gemm's own kernels for few rows of x (kRows, kSplit), reading w at home
//   kLibrary    cuBLASLt, reading w at home: it fetches w again for every 256 rows of x. What it
//               cannot address goes to gemm's kPlain, so that there is always a way
//
// This is the kernel repository of C2CServe (paper §4, §6.4: variants by precision, shape and
// slice, chosen by profile), with staging beside it, which the paper does not have.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/home_gemm/chunks.h"
#include "kernels/home_gemm/traffic.h"
#include "kernels/home_gemm/way.h"
#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::home_gemm {

class Profile;

// What the planner knows of the slice and of the moment.
struct Facts {
  Home home = Home::kHost;
  int sm_count = 132;                               // SMs that the stream's context owns
  std::array<int, 4> clusters = {132, 66, 30, 14};  // hybrid_gemm::clusters_that_fit()
  Bytes scratch;           // HBM for this product alone: HybridGEMM's ring, or pieces of w
  bool copies = false;     // copy engines may bring w into the scratch
  bool neighbour = false;  // another model decodes on this GPU meanwhile
};

struct Plan {
  gemm::CudaRequest request;
  Way way = Way::kLibrary;
  gemm::CudaPlan product = {};    // kFewRows, kLibrary
  hybrid_gemm::Plan hybrid = {};  // kSymmetric, kRing
  std::vector<Chunk> chunks;      // kStaged, in the order of columns
  Bytes scratch;                  // of Facts::scratch, what is used
  Bytes workspace;                // of gemm's workspace (gemm_cuda.h)
  double seconds = 0;             // predicted, alone on the GPU
  bool measured = false;          // by the profile; else by the traffic model
};

// The way that costs least; pure. A way's cost is its time; beside a neighbour, that time as the
// profile says it grows, and the neighbour's loss during it. Equal costs: the way that is declared
// first in `Way`. A way whose precondition is lacking is never chosen. Errors: those of
// gemm::choose(); kInvalidArgument for a slice without SMs; kUnsupported for a product with a norm
// or in parts, which nothing reads at home.
Result<Plan> choose(const gemm::CudaRequest& request, const Facts& facts, const Profile& profile);

// The plan for a given way. Errors: as choose(), and kUnsupported, with the reason, when its
// precondition is lacking:
//   kStaged     copies, and scratch for two pieces of 128 columns
//   kSymmetric, kRing   bf16 out, aligned operands (silu_mul: n a multiple of 8, and out as boxed()
//               asks), enough SMs; kRing: scratch for at least one tile of 128 columns
//   kFewRows    m ≤ 128 and what gemm's kernels ask for
//   kLibrary    none
Result<Plan> plan_for(Way way, const gemm::CudaRequest& request, const Facts& facts,
                      const Profile& profile);

// What the traffic model is asked for a plan.
inline TrafficOf traffic_of(const Plan& plan) {
  return {.way = plan.way,
          .pieces = static_cast<std::int64_t>(plan.chunks.size()),
          .cluster_ctas = plan.way == Way::kSymmetric ? plan.hybrid.cluster_ctas : 1};
}

}  // namespace causeway::kernels::home_gemm
