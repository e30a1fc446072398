// Matrix product of activations with a weight that lies in HBM as it lies in a checkpoint:
//
//   plain      out [m][n] = x [m][k] · w [n][k]ᵀ (+ bias [n]) (+ residual [m][n])
//   silu_mul   out [m][n] = silu(x · gate [n][k]ᵀ) ⊙ (x · up [n][k]ᵀ); w is [gate; up]
//
// With a norm, x stands for its rows' RMSNorm: (x ⊙ gains, rounded to bf16) / √(mean(x²) + ε), the
// latter a factor of the f32 sums.
//
// x, w, bias and residual are bf16; sums are f32, rounded once; out is bf16 or f32. Four ways:
//
//   kRows     own kernel for few rows of x, bound by reading w once: every CTA owns whole rows
//             of w.
//   kSplit    own kernel for m ≤ 128: CTAs share tiles of w along k and add up in a fixed order.
//   kLibrary  cuBLASLt, bound by arithmetic; and what TMA cannot address. It may round the product
//             to bf16 before it adds bias and residual.
//   kPlain    for operands that cuBLASLt cannot address either: right, and slow.
//
// The own kernels start reading w before the kernel in front of them in the stream has ended
// (programmatic dependent launch), so that a chain of products keeps the memory busy across their
// borders. choose() is pure and says which way, how it is launched, and how much workspace it
// takes; CudaGemm runs it. Every way is deterministic. Within kRows, and within one kernel of
// kSplit (CudaPlan::batch, pairs), a row's result is the same to the bit whatever the other rows
// are and however many there are.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"
#include "kernels/l2_discard.h"

namespace causeway::kernels::gemm {

enum class CudaOut { kBF16, kF32 };

// How much of an SM's shared memory the own kernels take for up to 32 rows. Products that follow
// each other in a stream should alternate: an SM has room for one CTA of each then, but not for two
// CTAs of one product, which would leave other SMs idle.
enum class CudaShare { kLess, kMore };

struct CudaRequest {
  std::int64_t m = 0;
  std::int64_t n = 0;  // columns of out
  std::int64_t k = 0;
  CudaOut out = CudaOut::kBF16;
  bool bias = false;
  bool residual = false;  // plain with bf16 out only
  bool silu_mul = false;  // bf16 out only; bias, if any, is [2n]
  bool norm = false;      // kRows only
  // 2: kLibrary and kSplit with f32 out only, and nothing is added: out is [2][m] rows out_stride
  // apart, a part the product over its half of k. The reader adds them up (rms_norm_cuda.h): one
  // kernel less.
  int parts = 1;
  CudaShare share = CudaShare::kLess;
  bool aligned = true;  // aligned(operands): what TMA can address
  bool paired = true;   // paired(operands): what cuBLASLt can address
  bool boxed = true;    // boxed(operands, out): what TMA can store
};

// Strides are in elements. All pointers are memory of the device.
struct CudaOperands {
  const void* x = nullptr;         // bf16 [m][k], row stride x_stride
  const void* w = nullptr;         // bf16 [n][k], or [2n][k] for silu_mul; row stride w_stride
  const void* bias = nullptr;      // bf16 [n], or [2n] for silu_mul
  const void* residual = nullptr;  // bf16 [m][n], row stride residual_stride; may be out itself
  const void* gains = nullptr;     // norm: bf16 [k], 16-byte aligned
  float epsilon = 0;               // norm
  // CudaPlan::drops: what the kernels in front were the last to read is dropped from L2 meanwhile.
  DiscardList discards = {};
  void* out = nullptr;  // bf16 or f32 [m][n], row stride out_stride
  std::int64_t x_stride = 0;
  std::int64_t w_stride = 0;
  std::int64_t residual_stride = 0;
  std::int64_t out_stride = 0;
};

enum class CudaPath { kRows, kSplit, kLibrary, kPlain };

struct CudaFacts {
  int sm_count = 132;  // SMs that the stream's context owns
};

// How CTAs of kSplit go in pairs (clusters of two).
enum class CudaPairs {
  kNone,
  kHalves,  // two CTAs have one tile, half of its k each
  kInputs,  // tiles have twice the rows, half of them each, in step: x is read once for both
};

// kRows: w is cut into tiles of 16·blocks rows, dealt out to the CTAs in equal shares; a step has
// kRowsStepK columns or twice as many.
// kSplit: w is cut into tiles of kSplitRows rows (kInputs: 2·kSplitRows), a tile into k_steps steps
// of kSplitStepK columns; the steps of all tiles in a row are dealt out to the CTAs (kInputs: the
// pairs) in equal shares, each of at least a tile; of kHalves each pair has one tile. Parts
// make so many times as many tiles.
struct CudaPlan {
  CudaRequest request;
  CudaPath path = CudaPath::kLibrary;
  // Rows of x that the kernel is built for: m rounded up to 8, 16, 32, 64, 96 (kSplit) or 128.
  int batch = 0;
  int blocks = 0;  // kRows
  int step_k = 0;  // columns of a step
  int tiles = 0;
  int k_steps = 0;
  int ctas = 0;
  CudaPairs pairs = CudaPairs::kNone;  // kSplit
  bool boxes = false;                  // kSplit: sums go out by the copy engine, which adds nothing
  bool drops = false;                  // kSplit: what is not read again, beside the stream of w
  int sm_count = 0;                    // kLibrary: that the library may count on
  Bytes workspace;  // device memory, 256-byte aligned, shared by all products of a stream
};

constexpr int kRowsMax = 32;       // largest m of kRows
constexpr int kNormRowsMax = 32;   // largest m of kRows with a norm
constexpr int kRowsBlocksMax = 3;  // largest CudaPlan::blocks
constexpr int kRowsStepK = 128;    // columns that its four warps share
constexpr int kSplitMax = 128;     // largest m of kSplit
constexpr int kSplitRows = 128;    // rows of w in a tile
constexpr int kSplitKeptMax = 4;   // stages that a tile's end keeps: so many steps, or no boxes
constexpr int kSplitStepK = 64;    // columns of a step: 128 bytes, the swizzle's width
// The first bytes of every workspace say whose sums are there; they are zero between launches.
constexpr Bytes kFlagBytes = kib(64);
constexpr Bytes kLibraryBytes = mib(32);  // what cuBLASLt wants on Hopper

// Chooses the plan; pure. Errors: kInvalidArgument for empty shapes, sizes of 2^31 and more, SMs of
// 2^16 and more, and combinations that the request's comments rule out.
Result<CudaPlan> choose(const CudaRequest& request, const CudaFacts& facts);

// How many parts a product of the residual stream (o, down) had better be left in, if its reader
// can add them up: 1 or 2. One much deeper than wide always, another one where pairs of CTAs halve
// the parts' k once more. Pure.
int parts_wanted(const CudaRequest& request, const CudaFacts& facts);
constexpr std::int64_t kPartsRowsMax = 256;  // the largest m for which that is 2
constexpr int kPartsMax = 2;

// The plan for a given way. Errors: as choose(), and kUnsupported when the way cannot do it.
Result<CudaPlan> plan_for(CudaPath path, const CudaRequest& request, const CudaFacts& facts);

// True when choose() finds a way that normalises x itself; else the caller does that before. Pure.
bool fuses_norm(const CudaRequest& request, const CudaFacts& facts);

// True when TMA can address x, w and gains: the value for CudaRequest::aligned.
bool aligned(const CudaOperands& operands);

// True when x, w, out and residual (where there is one) are 16-byte aligned and their strides even:
// the value for CudaRequest::paired. cuBLASLt accesses pairs, whatever alignment it is told.
bool paired(const CudaOperands& operands);

// True when out is 16-byte aligned and so are its rows: the value for CudaRequest::boxed.
bool boxed(const CudaOperands& operands, CudaOut type);

// May this launch start before the kernel in front of it in the stream has ended? Safe behind any
// kernel that does not write w, which is read without waiting; pays off behind kernels that let
// their dependents start early.
enum class Overlap { kNo, kYes };

// Runs plans on the device that was current at create(). One call at a time. No launch allocates
// device memory or waits, so that all can be captured in a CUDA graph; a graph keeps the operands'
// addresses. The first call with a shape on kLibrary asks cuBLASLt's heuristics (about 0.1 ms).
class CudaGemm {
 public:
  static Result<CudaGemm> create();
  ~CudaGemm();
  CudaGemm(CudaGemm&&) noexcept;
  CudaGemm& operator=(CudaGemm&&) noexcept;

  // Zeroes the flags of a new workspace, in stream order. Once, before its first run().
  static Status prepare(void* workspace, CudaStream stream);

  // Where a product of parts may be left, dense: memory of a workspace that is large enough for it,
  // which the next product with silu_mul or parts overwrites.
  static float* parts_in(void* workspace) {
    return reinterpret_cast<float*>(static_cast<char*>(workspace) +
                                    (kFlagBytes + kLibraryBytes).count);
  }

  // Enqueues the product. `workspace`: at least CudaPlan::workspace bytes, prepared, and used by no
  // other stream at the same time.
  Status run(const CudaPlan& plan, const CudaOperands& operands, void* workspace, CudaStream stream,
             Overlap overlap);

 private:
  class State;
  explicit CudaGemm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::gemm
