// Mixture of experts on a GPU, bf16, as moe.h defines it: the router's choice, the tokens grouped
// by expert, and each chosen expert's gated MLP over its tokens, all without the host: it never
// learns which experts were chosen. Experts that no token chose are not read.
//
// Experts are reached through tables of pointers in device memory, so that each may lie anywhere
// (HBM, mapped host memory, a peer) and move between steps. An expert's weights are read once for
// up to 8 of its tokens, with more than kSmallBatchTokens of the run for up to 160, and again for
// each further 8 or 160. With a front the tables are read before kernels in front have ended: none
// of the chain's kernels writes them that is not followed by one that lets nothing behind it start
// before it has waited (`wait_then_let_successor_start`).
//
// Deterministic, and within one way neither timing nor the other tokens change a bit of a token's
// result. The ways: up to kSmallBatchTokens, with and without the front, the sum over experts by
// rising expert; one token with front that has a kernel of its own, which shape and sm_count decide
// (README.md), likewise, but the sums of a product in another order; more tokens, the sum in the
// order of the token's choices. Between ways bits may differ: of a token with front, alone and
// beside another one, too.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::moe {

struct ShapeCuda {
  std::int64_t hidden = 0;             // multiple of 32
  std::int64_t intermediate = 0;       // of one expert; multiple of 32
  std::int64_t experts = 0;            // at most 512
  std::int64_t experts_per_token = 0;  // at most 32
};

constexpr std::int64_t kSmallBatchTokens = 64;  // up to so many, one kernel does gate, up and down
constexpr std::int64_t kFrontTokens = 8;        // up to so many, it can take in norm and router too

// Device memory, 16-byte aligned; matrices dense and bf16 unless said.
struct ParamsCuda {
  ShapeCuda shape;
  std::int64_t tokens = 0;
  int sm_count = 0;  // of the stream's context; the same in all runs with one workspace
  bool normalise_top_k = true;
  const void* x = nullptr;                // [tokens][hidden]
  const float* scores = nullptr;          // f32 [tokens][experts], x · routerᵀ
  const void* const* gate = nullptr;      // [experts] of [intermediate][hidden]
  const void* const* up = nullptr;        // likewise
  const void* const* down = nullptr;      // [experts] of [hidden][intermediate]
  const void* residual = nullptr;         // [tokens][hidden], added to the sum; may be out itself
  void* out = nullptr;                    // [tokens][hidden]; does not overlap x
  void* workspace = nullptr;              // workspace_bytes, prepared
  std::uint64_t* experts_read = nullptr;  // or null: the experts chosen by any token are added
  std::uint32_t* chosen = nullptr;        // or null: [experts], tokens that choose each are added
};

// The norm in front of the experts and the router's product.
struct FrontCuda {
  const void* norm_weight = nullptr;  // [hidden]
  const void* router = nullptr;       // [experts][hidden]
  float epsilon = 0;
};

Bytes workspace_bytes(const ShapeCuda& shape, std::int64_t tokens);

// Clears a new workspace's counters, in stream order. Once, before its first run. A workspace
// serves one stream.
Status prepare(void* workspace, CudaStream stream);

// The CTAs of the kernels for small batches and for one, one an SM, wait for each other, here and
// in run_with_front: sm_count beyond what the context has, or kernels of other streams that never
// leave its SMs, would make them hang.
Status run(const ParamsCuda& params, CudaStream stream);

// Can run_with_front do it? Else norm, router's product and run.
bool front_fits(const ShapeCuda& shape, std::int64_t tokens, int sm_count);

// x = norm(residual) and scores = x · routerᵀ too, in the same kernel: params.x and params.scores
// are not used, params.residual is the norm's input. As run, it needs all of sm_count's SMs.
Status run_with_front(const FrontCuda& front, const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::moe
