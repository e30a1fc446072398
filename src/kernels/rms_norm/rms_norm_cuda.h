// Root-mean-square normalisation on a GPU, bf16:
//
//   out[r] = x[r] / sqrt(mean(x[r]²) + ε) × (offset + weight)
//
// With `rows_wanted`, of these rows of x only (those that need logits). `weight` is read before the
// kernel in front in the stream has ended.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "kernels/l2_discard.h"

namespace causeway::kernels::rms_norm {

// All matrices are dense device memory, 16-byte aligned.
struct ParamsCuda {
  std::int64_t rows = 0;         // of out
  std::int64_t size = 0;         // multiple of 8, at most 32,768
  const void* x = nullptr;       // bf16 [tokens][size]
  const void* weight = nullptr;  // bf16 [size]
  float offset = 0;
  float epsilon = 1e-5f;
  void* out = nullptr;                        // bf16 [rows][size], not x
  const std::int32_t* rows_wanted = nullptr;  // [rows] which tokens; negative: out is not written
  // f32 [kParts][tokens][size]: a product's parts, which are added to x in that order before. Or
  // null. They are not read again and are discarded, unless `parts_stay`.
  float* parts = nullptr;
  bool parts_stay = false;
  std::int64_t tokens = 0;  // with parts
  // bf16 [tokens][size], with parts: gets x + parts in the rows wanted, each of them once. May be
  // x.
  void* sum = nullptr;
  // bf16 [tokens][size], or null; not with parts. x gets norm(added) by added_weight before, which
  // `sum` keeps as with parts. `out` may be null then: nothing but the sum is made.
  const void* added = nullptr;
  const void* added_weight = nullptr;
  // What the kernels in front were the last to read is dropped from L2 meanwhile.
  DiscardList discards = {};
};

constexpr int kParts = 2;
constexpr std::int64_t kPartsSizeMax = 8192;  // of a row with parts, or with what is added

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::rms_norm
