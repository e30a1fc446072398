// HybridGEMM: O[M×N] = X[M×K] · W[N×K]ᵀ in bf16, with X and O in HBM and W read in place at its
// home (mapped host memory, or a peer GPU's HBM), after Algorithm 1 of C2CServe (paper §5).
//
// The columns are split by α, a run-time argument:
//
//             0            n_symmetric = α·N             N
//   O, W:     |  symmetric  |       asymmetric           |
//
// symmetric    output-stationary: a tile of O stays in registers, and W crosses the link once for
//              every 256·cluster rows of M; once in all when M fits, and then it is link-optimal
//              too.
// asymmetric   W crosses the link exactly once: it passes through a small ring in HBM (L2), from
//              which output-stationary tiles read it. No partial sums at all.
//
// The two parts run on disjoint CTAs of one persistent kernel and write disjoint columns. Sums are
// f32 and rounded to bf16 once. Every way adds along K in the same order, sixteen at a time, so the
// result does not depend on α, on the slice or on timing: it is the same to the bit.
//
// W is [N×K] row-major ("out_features × in_features"), as safetensors has it: no re-layout.
// Differences to the paper: the asymmetric part is the ring instead of Algorithm 1's panels of W in
// shared memory, whose partial sums are reduced into O (README.md says why), and the symmetric
// part multicasts W in a cluster.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace causeway::kernels::hybrid_gemm {

struct Shape {
  std::int64_t m = 0;  // rows of X and O (tokens)
  std::int64_t n = 0;  // columns of O, rows of W (out_features)
  std::int64_t k = 0;  // columns of X and W (in_features)
};

// Which way the whole product is computed. kPlain serves what TMA cannot address (K not a multiple
// of 8, or rows that are not 16-byte aligned): right, but slow.
enum class Variant { kHybrid, kPlain };

// What the planner knows of the slice that will run the kernel.
struct SliceFacts {
  int sm_count = 132;  // SMs that the stream's context owns
  // How many clusters of 1, 2, 4, 8 CTAs fit at the same time (clusters_that_fit): GPCs with an odd
  // number of pairs or quads leave SMs out. An H200 in full:
  std::array<int, 4> clusters = {132, 66, 30, 14};
  double link_gb_per_s = 51.0;  // of the link to W's home, measured
  // What one SM that only relays brings: what it can have on its way over the link's latency.
  // Measured: 13 over PCIe, 26 over NVLink to a peer.
  double relay_gb_per_s = 13.0;
  double matrix_tflop_per_s = 6.0;  // of one SM, measured
  Bytes ring_bytes = mib(32);       // scratch that the asymmetric part may take
};

// What the caller may fix; everything else follows from the shape and the slice.
struct Request {
  Shape shape;
  double alpha = 0.0;    // share of columns that go the symmetric way, 0 … 1
  bool aligned = true;   // 16-byte aligned pointers and row strides
  int cluster_ctas = 0;  // 0: chosen; else 1, 2, 4 or 8
};

// Everything that the kernel is launched with. Counts of CTAs are multiples of cluster_ctas.
struct Plan {
  Shape shape;
  Variant variant = Variant::kHybrid;
  int cluster_ctas = 1;
  int symmetric_ctas = 0;
  int asymmetric_ctas = 0;
  int relay_ctas = 0;            // asymmetric: further CTAs, which only bring W over the link
  std::int64_t n_symmetric = 0;  // ⌊αN⌋ rounded down to a tile: a straddling tile would cross twice
  int slots = 0;                 // column tiles of W that the ring holds
  int ring_group = 0;            // column tiles walked together
  Bytes workspace;               // device memory, 16-byte aligned, private to one launch at a time
  Bytes flag_bytes;              // its first bytes: launch() zeroes them in stream order
  Bytes link_bytes;              // what will cross the link
  Bytes hbm_bytes;  // least traffic of X, O and the scratch, taking L2 reuse as perfect
};

// Tile sizes that choose.cc and the kernel share.
constexpr int kTileN = 128;       // columns of an output tile, both ways
constexpr int kStreamRows = 256;  // rows of one CTA's output tile, both ways
constexpr int kStepK = 64;        // depth of one shared-memory tile: 128 bytes, the swizzle's width
constexpr int kRingSlotsMax = 256;  // column tiles in the ring
constexpr int kRingGroupMax = 4;    // column tiles walked together, so that X is read once for four

// Chooses the plan; pure. Errors: kInvalidArgument for empty shapes, α outside [0, 1] or not a
// number, sizes of 2^31 and more, too small a slice or too little ring.
Result<Plan> choose(const Request& request, const SliceFacts& slice);

// What is expected to be fastest: the symmetric way when its clusters let W cross the link seldom
// enough (up to 2,048 rows: once), else the ring. Pure.
Request recommend(const Shape& shape, const SliceFacts& slice);

// Row strides are in elements. All pointers are readable by the device of `stream`.
struct Operands {
  const void* x = nullptr;  // bf16 [m × k], row stride x_stride, HBM
  const void* w = nullptr;  // bf16 [n × k], row stride w_stride, at home
  void* o = nullptr;        // bf16 [m × n], row stride o_stride, HBM
  std::int64_t x_stride = 0;
  std::int64_t w_stride = 0;
  std::int64_t o_stride = 0;
  void* workspace = nullptr;  // Plan::workspace bytes of HBM; may be null when that is 0
  // Added to the f32 sums, before they are rounded; null: nothing.
  const void* bias = nullptr;      // bf16 [n]
  const void* residual = nullptr;  // bf16 [m × n], row stride residual_stride; may be o itself
  std::int64_t residual_stride = 0;
};

// True when TMA can address the operands: the value for Request::aligned.
bool aligned(const Operands& operands);

// How many clusters of 1, 2, 4 and 8 CTAs of the kernel the context of `stream` (a cudaStream_t)
// can hold at once: SliceFacts::clusters. Built with CUDA only.
Result<std::array<int, 4>> clusters_that_fit(void* stream);

// Enqueues the product on `stream` (a cudaStream_t); does not block. Plans with an asymmetric part
// are launched cooperatively: their CTAs wait for each other. Built with CUDA only.
Status launch(const Plan& plan, const Operands& operands, void* stream);

// The CPU backend and the reference: f32 sums, one rounding. Pointers are host memory; workspace is
// not used.
void run_on_host(const Shape& shape, const Operands& operands);

}  // namespace causeway::kernels::hybrid_gemm
