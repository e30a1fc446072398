// Mixture of experts on a GPU, bf16, as moe.h defines it: the router's choice, the tokens grouped
// by expert, and each chosen expert's gated MLP over its tokens, all without the host: it never
// learns which experts were chosen. Experts that nobody chose are not read.
//
// Experts are reached through tables of pointers in device memory, so that each may lie anywhere
// (HBM, mapped host memory, a peer) and move between steps.
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

// Device memory, 16-byte aligned; matrices dense and bf16 unless said.
struct ParamsCuda {
  ShapeCuda shape;
  std::int64_t tokens = 0;
  bool normalise_top_k = true;
  const void* x = nullptr;            // [tokens][hidden]
  const float* scores = nullptr;      // f32 [tokens][experts], x · routerᵀ
  const void* const* gate = nullptr;  // [experts] of [intermediate][hidden]
  const void* const* up = nullptr;    // likewise
  const void* const* down = nullptr;  // [experts] of [hidden][intermediate]
  void* out = nullptr;                // [tokens][hidden]; does not overlap x
  void* workspace = nullptr;          // workspace_bytes; need not be cleared
};

Bytes workspace_bytes(const ShapeCuda& shape, std::int64_t tokens);

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::moe
