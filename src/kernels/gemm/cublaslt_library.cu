// cuBLASLt's functions, each of which is looked up in its library when it is first called. So the
// program starts on a machine without the library, half a gigabyte that only GPUs need.
//
// The library is looked for as the dynamic linker does (LD_LIBRARY_PATH, the program's RUNPATH, the
// linker's cache), then where NVIDIA's own packages put it. Without it, or with one that lacks a
// function, calls return CUBLAS_STATUS_NOT_INITIALIZED, for which cublasLtGetStatusString() says
// what is missing. Any thread may call.
#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

namespace {

#define CAUSEWAY_TEXT(value) #value
#define CAUSEWAY_TEXT_OF(macro) CAUSEWAY_TEXT(macro)
constexpr const char* kName = "libcublasLt.so." CAUSEWAY_TEXT_OF(CUBLAS_VER_MAJOR);
constexpr const char* kMissing =
    "libcublasLt.so." CAUSEWAY_TEXT_OF(CUBLAS_VER_MAJOR) " was not found: install cuBLAS of CUDA "
    CAUSEWAY_TEXT_OF(CUBLAS_VER_MAJOR) ", or have its folder in the linker's search path";

void* open_library() {
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    void* const library = ::dlopen((folder + std::string(kName)).c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return nullptr;
}

// nullptr: there is no such function to be had.
void* find(const char* name) {
  static void* const library = open_library();
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

}  // namespace

// `name` with `parameters` as cublasLt.h declares it, which is called with `arguments`.
#define CAUSEWAY_FORWARD(name, parameters, arguments)                                \
  cublasStatus_t CUBLASWINAPI name parameters {                                      \
    static const auto function = reinterpret_cast<decltype(&name)>(find(#name));     \
    return function == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : function arguments; \
  }

extern "C" {

const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  static const auto function =
      reinterpret_cast<decltype(&cublasLtGetStatusString)>(find("cublasLtGetStatusString"));
  return function == nullptr ? kMissing : function(status);
}

CAUSEWAY_FORWARD(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
CAUSEWAY_FORWARD(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
CAUSEWAY_FORWARD(cublasLtMatmulDescCreate,
                 (cublasLtMatmulDesc_t * made, cublasComputeType_t compute, cudaDataType_t scale),
                 (made, compute, scale))
CAUSEWAY_FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t description), (description))
CAUSEWAY_FORWARD(cublasLtMatmulDescSetAttribute,
                 (cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
                  const void* value, size_t bytes),
                 (description, attribute, value, bytes))
CAUSEWAY_FORWARD(cublasLtMatrixLayoutCreate,
                 (cublasLtMatrixLayout_t * made, cudaDataType type, uint64_t rows, uint64_t columns,
                  int64_t stride),
                 (made, type, rows, columns, stride))
CAUSEWAY_FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
CAUSEWAY_FORWARD(cublasLtMatrixLayoutSetAttribute,
                 (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                  const void* value, size_t bytes),
                 (layout, attribute, value, bytes))
CAUSEWAY_FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * made), (made))
CAUSEWAY_FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference),
                 (preference))
CAUSEWAY_FORWARD(cublasLtMatmulPreferenceSetAttribute,
                 (cublasLtMatmulPreference_t preference,
                  cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes),
                 (preference, attribute, value, bytes))
CAUSEWAY_FORWARD(cublasLtMatmulAlgoGetHeuristic,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                  cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
                  cublasLtMatmulHeuristicResult_t* results, int* count),
                 (handle, description, a, b, c, d, preference, wanted, results, count))
CAUSEWAY_FORWARD(cublasLtMatmul,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                  const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                  cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                  cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                  const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                  cudaStream_t stream),
                 (handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                  d_layout, algorithm, workspace, bytes, stream))

}  // extern "C"
