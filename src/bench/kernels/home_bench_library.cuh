// cuBLASLt's bf16 products for the benchmark's rivals, told how many SMs the slice has.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/result.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::home_gemm {

// Row-major O [m × columns] of row stride n = X [m × k] · W [columns × k]ᵀ. Not thread-safe.
class LibraryProducts {
 public:
  struct Shape {
    std::int64_t n = 0;  // row stride of O
    std::int64_t k = 0;
    int processors = 0;
  };
  // `workspace`: kWorkspace bytes of device memory, outlives the object.
  static constexpr std::int64_t kWorkspace = std::int64_t{32} << 20;
  static Result<std::unique_ptr<LibraryProducts>> create(const Shape& shape, void* workspace);
  LibraryProducts(const Shape& shape, void* workspace);  // for create()
  ~LibraryProducts();
  LibraryProducts(const LibraryProducts&) = delete;
  LibraryProducts& operator=(const LibraryProducts&) = delete;

  struct Operands {
    const void* x = nullptr;
    const void* w = nullptr;
    void* o = nullptr;
  };
  Status run(std::int64_t m, std::int64_t columns, const Operands& operands, CudaStream stream);

 private:
  struct Prepared;
  Result<Prepared*> prepared(std::int64_t m, std::int64_t columns);

  Shape shape_;
  void* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Prepared>> products_;
};

}  // namespace causeway::kernels::home_gemm
