// The calls of cuBLASLt that need no GPU, through the functions that find the library themselves.
//   cublaslt_library_gpu_test
#include <cublasLt.h>

#include <string>

#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::gemm {
namespace {

void check_descriptions(testing::Report& report) {
  cublasLtMatmulDesc_t description = nullptr;
  report.check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
                   CUBLAS_STATUS_SUCCESS,
               "a description");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const auto set = [&](std::size_t bytes) {
    return cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                          bytes);
  };
  report.check(set(sizeof transposed) == CUBLAS_STATUS_SUCCESS, "an attribute");
  report.check(set(sizeof transposed - 1) == CUBLAS_STATUS_INVALID_VALUE,
               "a size that does not fit is refused");
  report.check(cublasLtMatmulDescDestroy(description) == CUBLAS_STATUS_SUCCESS, "its end");
}

void check_layouts(testing::Report& report) {
  cublasLtMatrixLayout_t layout = nullptr;
  report.check(
      cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 64, 32, 64) == CUBLAS_STATUS_SUCCESS,
      "a layout");
  const std::int32_t parts = 3;
  report.check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &parts,
                                                sizeof parts) == CUBLAS_STATUS_SUCCESS,
               "its parts");
  report.check(cublasLtMatrixLayoutDestroy(layout) == CUBLAS_STATUS_SUCCESS, "its end");
}

void check_preferences(testing::Report& report) {
  cublasLtMatmulPreference_t preference = nullptr;
  report.check(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS,
               "a preference");
  const std::size_t bytes = 1 << 20;
  report.check(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &bytes, sizeof bytes) == CUBLAS_STATUS_SUCCESS,
      "its workspace");
  report.check(cublasLtMatmulPreferenceDestroy(preference) == CUBLAS_STATUS_SUCCESS, "its end");
}

int run_all() {
  testing::Report report;
  check_descriptions(report);
  check_layouts(report);
  check_preferences(report);
  const std::string text = cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED);
  report.check(!text.empty() && text.find("not found") == std::string::npos, "an error's name");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::gemm

int main() { return causeway::kernels::gemm::run_all(); }
