// A chain of up to four products that follow each other, each reading what the one in front wrote,
// in one persistent kernel: for 17 to 128 rows of x, where x weighs too much for kRows and the
// borders between launches too much for cuBLASLt.
//
//   link   out [m][n] = x [m][k] · w [n][k]ᵀ (+ bias) (+ residual), or silu(gate) ⊙ up   (gemm_cuda.h)
//
// RMSNorm between two links costs no pass of its own: the first (`scales`) leaves out ⊙ gains beside
// out and the sums of out's squares, the second (`normed`) reads the former as x and multiplies its
// sums with 1 / rms.
//
// Weights stream through one ring of shared memory across the borders of links; a link's x is asked
// for when every CTA has finished the link in front. All CTAs of the grid must be on the GPU at
// once: one an SM, of the SMs that the plan was told of. Results are deterministic; a row's bits do
// not depend on the other rows, as long as the plan's `batch` is the same.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::gemm {

constexpr int kChainLinksMax = 4;
constexpr int kChainRowsMax = 128;    // largest m
constexpr int kChainTileRows = 256;   // rows of w in a tile
constexpr int kChainStepK = 64;       // columns of a step
constexpr int kChainSplitsMax = 8;    // CTAs that share a tile along k
constexpr int kChainGroups = 2;       // warpgroups that multiply

struct ChainShape {
  std::int64_t n = 0;  // columns of out; a multiple of 8
  std::int64_t k = 0;  // a multiple of 64
  CudaOut out = CudaOut::kBF16;
  bool bias = false;
  bool residual = false;
  bool silu_mul = false;
  bool scales = false;  // bf16 out, without silu_mul
  bool normed = false;  // a link in front scales
};

// All matrices are dense device memory, 16-byte aligned.
struct ChainOperands {
  const void* x = nullptr;         // bf16 [m][k]
  const void* w = nullptr;         // bf16 [n][k], or [2n][k]
  const void* bias = nullptr;      // bf16 [n], or [2n]
  const void* residual = nullptr;  // bf16 [m][n]; may be out
  void* out = nullptr;             // bf16 or f32 [m][n]
  const void* gains = nullptr;     // scales: bf16 [n]
  void* scaled = nullptr;          // scales: bf16 [m][n]
  float epsilon = 0;               // normed
};

// A tile is shared by `splits` CTAs along k; unit u = tile · splits + share is CTA u mod ctas's.
struct ChainLinkPlan {
  int tiles = 0;
  int k_steps = 0;
  int splits = 1;
  int squares_from = -1;  // normed: which link scales
};

struct ChainPlan {
  std::int64_t m = 0;
  int batch = 0;  // rows of x that the kernel is built for: 64 or 128
  int ctas = 0;
  int count = 0;
  std::array<ChainShape, kChainLinksMax> shapes;
  std::array<ChainLinkPlan, kChainLinksMax> links;
  Bytes partials, squares;  // sizes in the workspace, behind the counters
  Bytes workspace;          // may be CudaGemm's: the counters are zero between launches
};

// Pure. Errors: kUnsupported for what the chain does not serve, kInvalidArgument for what makes no
// sense.
Result<ChainPlan> plan_chain(std::int64_t m, std::span<const ChainShape> shapes,
                             const CudaFacts& facts);

// One call at a time. No launch allocates or waits; all can be captured in a graph.
class CudaChain {
 public:
  static Result<CudaChain> create();
  ~CudaChain();
  CudaChain(CudaChain&&) noexcept;
  CudaChain& operator=(CudaChain&&) noexcept;

  // Enqueues the chain as a programmatic dependent. `workspace`: ChainPlan::workspace bytes,
  // prepared by CudaGemm::prepare().
  Status run(const ChainPlan& plan, std::span<const ChainOperands> operands, void* workspace,
             CudaStream stream);

 private:
  class State;
  explicit CudaChain(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::gemm
