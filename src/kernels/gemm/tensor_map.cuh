// Tensor maps of matrices for the copy engine (TMA), which swizzles their boxes: by 128 bytes, or
// by 64 where a box is that wide.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/result.h"

namespace causeway::kernels::gemm {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's encoder, found through the runtime: nothing links libcuda.
Result<EncodeTiled> find_encoder();

// A tensor of up to five dimensions, innermost first.
struct TensorShape {
  cuuint32_t rank;
  cuuint64_t sizes[5];
  cuuint64_t strides[4];  // bytes, of dimensions 1 …
  cuuint32_t box[5];
  bool f32 = false;  // else bf16
  // How much L2 fetches at a time. More than a box's row would cross the link for nothing where the
  // tensor is not in this GPU's memory.
  CUtensorMapL2promotion l2 = CU_TENSOR_MAP_L2_PROMOTION_NONE;
};

Result<CUtensorMap> encode(EncodeTiled encoder, const void* data, const TensorShape& shape);

inline cuuint64_t map_size(std::int64_t n) { return static_cast<cuuint64_t>(n); }
inline cuuint32_t map_box(std::int64_t n) { return static_cast<cuuint32_t>(n); }

}  // namespace causeway::kernels::gemm
