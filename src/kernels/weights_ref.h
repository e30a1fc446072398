// A weight as a kernel reads it: where it lies and of which type; its shape is the kernel's.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"

namespace causeway::kernels {

// Row-major elements of F32 or BF16, aligned to their size. Borrowed. No data: the weight is
// absent.
struct WeightsRef {
  const std::byte* data = nullptr;
  DType dtype = DType::kBF16;

  explicit operator bool() const { return data != nullptr; }
  bool is_bf16() const {
    CAUSEWAY_CHECK(dtype != DType::kF16, "kernels read F32 and BF16 weights only");
    return dtype == DType::kBF16;
  }
  const float* f32() const { return reinterpret_cast<const float*>(data); }
  const BFloat16* bf16() const { return reinterpret_cast<const BFloat16*>(data); }
  // The weight from element `index` on.
  WeightsRef from(std::int64_t index) const { return {data + index * size_of(dtype).count, dtype}; }
};

}  // namespace causeway::kernels
