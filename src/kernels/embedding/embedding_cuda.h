// Token embeddings on a GPU: rows of a bf16 table.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::embedding {

// Dense device memory, 16-byte aligned. `index` may be written by an earlier kernel of the stream
// (the tokens just sampled); what lies outside the table gives a row of zeros.
struct ParamsCuda {
  const void* table = nullptr;  // bf16 [rows][size]
  std::int64_t table_rows = 0;
  std::int64_t size = 0;                // multiple of 8
  const std::int32_t* index = nullptr;  // [count]
  std::int64_t count = 0;
  void* out = nullptr;  // bf16 [count][size]
  float scale = 1;      // by which they are multiplied, and rounded
};

Status run(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::embedding
