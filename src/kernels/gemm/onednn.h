// oneDNN behind a narrow door: one kind of product, its prepared primitives kept by shape. A build
// without oneDNN has the same door, and it says that it is closed.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace causeway::kernels::gemm {

class OneDnn {
 public:
  // out [m][n] (f32) = x [m][k] · w [n][k]ᵀ; x and w of `dtype`, strides in elements, w packed.
  struct Product {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t x_stride = 0;
    std::int64_t out_stride = 0;
    DType dtype = DType::kBF16;

    auto operator<=>(const Product&) const = default;
  };

  // False in a build without oneDNN, and for bf16 on a CPU where oneDNN has no fast bf16.
  static bool can_multiply(DType dtype);

  OneDnn();
  ~OneDnn();
  OneDnn(OneDnn&&) noexcept;
  OneDnn& operator=(OneDnn&&) noexcept;

  // Throws std::bad_alloc only; any other failure of oneDNN is a CHECK failure, since every shape
  // and stride comes from checked code. Only where can_multiply(dtype).
  void run(const Product& product, const void* x, const void* w, float* out);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::gemm
