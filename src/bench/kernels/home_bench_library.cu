#include <cuda_bf16.h>

#include <string>

#include "bench/kernels/home_bench_library.cuh"

namespace causeway::kernels::home_gemm {
namespace {

Status blas_status(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return Error{ErrorCode::kDevice,
               std::string("cuBLASLt: ") + what + ": " + cublasLtGetStatusString(code)};
}

}  // namespace

// A product's descriptions, and the algorithm that the heuristics put first.
struct LibraryProducts::Prepared {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, o = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (description != nullptr) cublasLtMatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t layout : {w, x, o}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
    if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
  }

  // In cuBLAS's terms: column-major O [columns × m] = W [k × columns]ᵀ · X [k × m].
  Status describe(const Shape& shape, std::int64_t m, std::int64_t columns) {
    CAUSEWAY_TRY(blas_status(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                             "description"));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    CAUSEWAY_TRY(
        blas_status(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA,
                                                   &transposed, sizeof transposed),
                    "transposition"));
    const std::int32_t processors = shape.processors;
    CAUSEWAY_TRY(blas_status(
        cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
                                       &processors, sizeof processors),
        "SMs"));
    const auto make = [](cublasLtMatrixLayout_t& layout, std::int64_t rows, std::int64_t columns_,
                         std::int64_t stride) {
      return blas_status(
          cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns_), stride),
          "layout");
    };
    CAUSEWAY_TRY(make(w, shape.k, columns, shape.k));
    CAUSEWAY_TRY(make(x, shape.k, m, shape.k));
    return make(o, columns, m, shape.n);
  }

  Status choose(cublasLtHandle_t handle) {
    CAUSEWAY_TRY(blas_status(cublasLtMatmulPreferenceCreate(&preference), "preference"));
    const std::size_t workspace = kWorkspace;
    CAUSEWAY_TRY(blas_status(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace, sizeof workspace),
        "preference"));
    cublasLtMatmulHeuristicResult_t offer = {};
    int count = 0;
    CAUSEWAY_TRY(blas_status(cublasLtMatmulAlgoGetHeuristic(handle, description, w, x, o, o,
                                                            preference, 1, &offer, &count),
                             "heuristics"));
    if (count == 0) return unsupported("cuBLASLt: no algorithm for this product");
    algorithm = offer.algo;
    return {};
  }
};

Result<std::unique_ptr<LibraryProducts>> LibraryProducts::create(const Shape& shape,
                                                                 void* workspace) {
  auto made = std::make_unique<LibraryProducts>(shape, workspace);
  CAUSEWAY_TRY(blas_status(cublasLtCreate(&made->handle_), "start"));
  return Result<std::unique_ptr<LibraryProducts>>(std::move(made));
}

LibraryProducts::LibraryProducts(const Shape& shape, void* workspace)
    : shape_(shape), workspace_(workspace) {}

LibraryProducts::~LibraryProducts() {
  products_.clear();
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

Result<LibraryProducts::Prepared*> LibraryProducts::prepared(std::int64_t m, std::int64_t columns) {
  std::unique_ptr<Prepared>& place = products_[{m, columns}];
  if (place == nullptr) {
    auto fresh = std::make_unique<Prepared>();
    CAUSEWAY_TRY(fresh->describe(shape_, m, columns));
    CAUSEWAY_TRY(fresh->choose(handle_));
    place = std::move(fresh);
  }
  return place.get();
}

Status LibraryProducts::run(std::int64_t m, std::int64_t columns, const Operands& operands,
                            CudaStream stream) {
  CAUSEWAY_ASSIGN(Prepared* const p, prepared(m, columns));
  const float one = 1.0f, zero = 0.0f;
  return blas_status(cublasLtMatmul(handle_, p->description, &one, operands.w, p->w, operands.x,
                                    p->x, &zero, operands.o, p->o, operands.o, p->o, &p->algorithm,
                                    workspace_, kWorkspace, stream),
                     "product");
}

}  // namespace causeway::kernels::home_gemm
