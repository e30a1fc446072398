#include "kernels/gemm/cublaslt.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "device/cuda/cuda_first_launch.h"
#include "kernels/activation/activation_cuda.h"

namespace causeway::kernels::gemm {
namespace {

constexpr int kAlgorithmsMax = 8;

Status blas_status(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return {};
  return Error{ErrorCode::kDevice,
               std::string("cuBLASLt: ") + what + ": " + cublasLtGetStatusString(code)};
}

Status cuda_status(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return Error{ErrorCode::kDevice, std::string("GEMM: ") + what + ": " + cudaGetErrorString(code)};
}

// out [m][n] = silu(gate) ⊙ up of stacked [m][2n], where activation::run() cannot do it.
__global__ void silu_mul_kernel(const __nv_bfloat16* stacked, __nv_bfloat16* out,
                                int64_t out_stride, int m, int n) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= n) return;
  for (int row = static_cast<int>(blockIdx.y); row < m; row += static_cast<int>(gridDim.y)) {
    const __nv_bfloat16* line = stacked + static_cast<int64_t>(row) * 2 * n;
    const float gate = __bfloat162float(line[column]), up = __bfloat162float(line[n + column]);
    out[row * out_stride + column] = __float2bfloat16_rn(gate / (1.0f + __expf(-gate)) * up);
  }
}

// f32 out [m][n] = bias [n] in every row; the product is added to it.
__global__ void broadcast_bias(const __nv_bfloat16* bias, float* out, int64_t out_stride, int m,
                               int n) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= n) return;
  for (int row = static_cast<int>(blockIdx.y); row < m; row += static_cast<int>(gridDim.y)) {
    out[row * out_stride + column] = __bfloat162float(bias[column]);
  }
}

constexpr int kElementThreads = 256;

dim3 element_grid(std::int64_t m, std::int64_t n) {
  return dim3(static_cast<unsigned>((n + kElementThreads - 1) / kElementThreads),
              static_cast<unsigned>(std::min<std::int64_t>(m, 8192)));
}

// What is multiplied, in cuBLAS's terms: column-major D [rows × m] = W [rows × k] · X [k × m] + C.
struct Product {
  std::int64_t m, rows, k;
  std::int64_t x_stride, w_stride, add_stride, out_stride;
  const void *x, *w, *bias, *add;  // bias: by the epilogue; add: C, null for none
  void* out;
  bool out_f32;
  std::int64_t parts;  // k is a part's
  int sm_count;        // that the stream's context owns; 0: all that the GPU has

  // Everything that the choice of an algorithm depends on.
  using Key = std::array<std::int64_t, 16>;
  Key key() const {
    return {m,
            rows,
            k,
            x_stride,
            w_stride,
            add_stride,
            out_stride,
            alignment(x, k * 2),
            alignment(w, k * 2),
            alignment(add, 0),
            alignment(out, part_bytes()),
            bias != nullptr,
            add != nullptr,
            out_f32,
            parts,
            sm_count};
  }
  std::int64_t part_bytes() const { return m * out_stride * (out_f32 ? 4 : 2); }  // of out
  // A pointer's alignment in bytes, as far as cuBLAS cares; that of all parts, `next` bytes apart.
  unsigned alignment(const void* pointer, std::int64_t next) const {
    constexpr std::uintptr_t kEnough = 256;
    const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kEnough |
                         (parts > 1 ? static_cast<std::uintptr_t>(next) : 0);
    return static_cast<unsigned>(address & (~address + 1));
  }
};

Product make_product(const CudaPlan& plan, const CudaOperands& operands, void* workspace) {
  const CudaRequest& r = plan.request;
  Product p = {};
  p.sm_count = plan.sm_count;
  p.m = r.m;
  p.rows = r.silu_mul ? 2 * r.n : r.n;
  p.parts = r.parts;
  p.k = r.k / r.parts;
  p.x = operands.x;
  p.w = operands.w;
  p.x_stride = operands.x_stride;
  p.w_stride = operands.w_stride;
  p.out_f32 = r.out == CudaOut::kF32;
  p.out = operands.out;
  p.out_stride = operands.out_stride;
  if (r.silu_mul) {
    p.out = static_cast<char*>(workspace) + (kFlagBytes + kLibraryBytes).count;
    p.out_stride = p.rows;
  }
  p.add_stride = p.out_stride;
  if (r.bias && !p.out_f32) p.bias = operands.bias;
  if (r.bias && p.out_f32) p.add = p.out;
  if (r.residual) {
    p.add = operands.residual;
    p.add_stride = operands.residual_stride;
  }
  return p;
}

// One part of a product of several, as a product of its own.
Product part_of(const Product& p, std::int64_t part) {
  const auto moved = [&](const void* base, std::int64_t bytes) {
    return static_cast<const char*>(base) + part * bytes;
  };
  Product one = p;
  one.parts = 1;
  one.x = moved(p.x, p.k * 2);
  one.w = moved(p.w, p.k * 2);
  one.out = static_cast<char*>(p.out) + part * p.part_bytes();
  return one;
}

// cuBLASLt's descriptions of a product, and what its heuristics offer: perhaps nothing.
class Prepared {
 public:
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (description_ != nullptr) cublasLtMatmulDescDestroy(description_);
    for (cublasLtMatrixLayout_t layout : layouts_) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }

  Status prepare(cublasLtHandle_t handle, const Product& p) {
    CAUSEWAY_TRY(describe(p));
    cublasLtMatmulPreference_t preference = nullptr;
    CAUSEWAY_TRY(blas_status(cublasLtMatmulPreferenceCreate(&preference), "preference"));
    const std::size_t workspace = to_size(kLibraryBytes);
    const unsigned of_out = p.alignment(p.out, p.part_bytes());
    const unsigned alignments[4] = {p.alignment(p.w, p.k * 2), p.alignment(p.x, p.k * 2),
                                    p.add != nullptr ? p.alignment(p.add, 0) : of_out, of_out};
    const cublasLtMatmulPreferenceAttributes_t names[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t code = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    // Parts of a split K are added in f32, in a fixed order; never in bf16, in place. A part of
    // ours is not split again: the kernel that adds up is what parts save.
    const std::uint32_t reductions =
        p.parts > 1 ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (code == CUBLAS_STATUS_SUCCESS) {
      code = cublasLtMatmulPreferenceSetAttribute(
          preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    }
    for (int i = 0; i < 4 && code == CUBLAS_STATUS_SUCCESS; ++i) {
      code = cublasLtMatmulPreferenceSetAttribute(preference, names[i], &alignments[i],
                                                  sizeof alignments[i]);
    }
    std::array<cublasLtMatmulHeuristicResult_t, kAlgorithmsMax> offers = {};
    int count = 0;
    bool none = false;
    if (code == CUBLAS_STATUS_SUCCESS) {
      code = cublasLtMatmulAlgoGetHeuristic(handle, description_, layouts_[0], layouts_[1],
                                            layouts_[2], layouts_[3], preference, kAlgorithmsMax,
                                            offers.data(), &count);
      none = code == CUBLAS_STATUS_NOT_SUPPORTED;  // how it says that it has nothing
    }
    cublasLtMatmulPreferenceDestroy(preference);
    if (none) return {};
    CAUSEWAY_TRY(blas_status(code, "heuristics"));
    for (int i = 0; i < count; ++i) {
      if (offers[i].state == CUBLAS_STATUS_SUCCESS) algorithms_[count_++] = offers[i].algo;
    }
    return {};
  }

  // One that is offered.
  Status run(cublasLtHandle_t handle, const Product& p, void* workspace, cudaStream_t stream) {
    if (p.bias != nullptr) {
      CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias));
    }
    const device::CudaFirstLaunch loading(kernels_of(p), stream);
    const float one = 1.0f, beta = p.add != nullptr ? 1.0f : 0.0f;
    return blas_status(
        cublasLtMatmul(handle, description_, &one, p.w, layouts_[0], p.x, layouts_[1], &beta,
                       p.add != nullptr ? p.add : p.out, layouts_[2], p.out, layouts_[3],
                       &algorithms_[selected_], workspace, to_size(kLibraryBytes), stream),
        "product");
  }

  // A number for the kernels that run() launches. cuBLASLt does not tell them: they follow from the
  // algorithm, and from what of the product it may not contain. Two numbers may mean the same ones.
  std::uintptr_t kernels_of(const Product& p) const {
    std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, by words
    const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001B3; };
    for (const std::uint64_t word : algorithms_[selected_].data) add(word);
    const Product::Key key = p.key();
    for (std::size_t i = 7; i < key.size(); ++i) add(static_cast<std::uint64_t>(key[i]));
    return hash;
  }

  int count() const { return static_cast<int>(count_); }
  void select(int algorithm) { selected_ = static_cast<std::size_t>(algorithm); }

 private:
  template <typename T>
  Status set(cublasLtMatmulDescAttributes_t name, const T& value) {
    return blas_status(cublasLtMatmulDescSetAttribute(description_, name, &value, sizeof value),
                       "attribute");
  }

  Status describe(const Product& p) {
    const cudaDataType_t out_type = p.out_f32 ? CUDA_R_32F : CUDA_R_16BF;
    CAUSEWAY_TRY(blas_status(
        cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description"));
    CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
    CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N));
    // Else it cuts the product for all SMs of the GPU.
    if (p.sm_count > 0) {
      CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{p.sm_count}));
    }
    if (p.bias != nullptr) {
      CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF));
      CAUSEWAY_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias));
    }
    // `next`: elements from part to part.
    const auto layout = [&](int i, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                            std::int64_t stride, std::int64_t next) -> Status {
      cublasLtMatrixLayout_t& made = layouts_[static_cast<std::size_t>(i)];
      CAUSEWAY_TRY(
          blas_status(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                                 static_cast<std::uint64_t>(columns), stride),
                      "layout"));
      if (p.parts == 1) return {};
      const auto parts = static_cast<std::int32_t>(p.parts);
      CAUSEWAY_TRY(blas_status(cublasLtMatrixLayoutSetAttribute(
                                   made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &parts, sizeof parts),
                               "parts"));
      return blas_status(cublasLtMatrixLayoutSetAttribute(
                             made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &next, sizeof next),
                         "parts");
    };
    CAUSEWAY_TRY(layout(0, CUDA_R_16BF, p.k, p.rows, p.w_stride, p.k));
    CAUSEWAY_TRY(layout(1, CUDA_R_16BF, p.k, p.m, p.x_stride, p.k));
    CAUSEWAY_TRY(layout(2, out_type, p.rows, p.m, p.add_stride, p.m * p.add_stride));
    return layout(3, out_type, p.rows, p.m, p.out_stride, p.m * p.out_stride);
  }

  cublasLtMatmulDesc_t description_ = nullptr;
  std::array<cublasLtMatrixLayout_t, 4> layouts_ = {};  // W, X, C, D
  std::array<cublasLtMatmulAlgo_t, kAlgorithmsMax> algorithms_ = {};
  std::size_t count_ = 0;
  std::size_t selected_ = 0;
};

}  // namespace

class CublasLt::State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  Status start() {
    int device = 0;
    CAUSEWAY_TRY(cuda_status(cudaGetDevice(&device), "device"));
    CAUSEWAY_TRY(cuda_status(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, device),
                             "device"));
    return blas_status(cublasLtCreate(&handle), "start");
  }

  Product product(const CudaPlan& plan, const CudaOperands& operands, void* workspace) const {
    Product p = make_product(plan, operands, workspace);
    if (p.sm_count >= sms_) p.sm_count = 0;
    return p;
  }

  Result<Prepared*> prepared(const Product& p) {
    std::unique_ptr<Prepared>& place = products_[p.key()];
    if (place == nullptr) {
      auto fresh = std::make_unique<Prepared>();
      if (batches || p.parts == 1) CAUSEWAY_TRY(fresh->prepare(handle, p));
      place = std::move(fresh);
    }
    return place.get();
  }

  // Enqueues a product: its parts together where cuBLASLt offers that, else one after the other.
  Status run(const Product& p, void* workspace, cudaStream_t stream) {
    CAUSEWAY_ASSIGN(Prepared* const prepared, this->prepared(p));
    if (prepared->count() > 0) return prepared->run(handle, p, workspace, stream);
    if (p.parts == 1) return unsupported("cuBLASLt: no algorithm for this product");
    for (std::int64_t part = 0; part < p.parts; ++part) {
      CAUSEWAY_TRY(run(part_of(p, part), workspace, stream));
    }
    return {};
  }

  cublasLtHandle_t handle = nullptr;
  bool batches = true;  // false: as if it offered none

 private:
  int sms_ = 0;  // of the GPU
  std::map<Product::Key, std::unique_ptr<Prepared>> products_;
};

CublasLt::CublasLt(std::unique_ptr<State> state) : state_(std::move(state)) {}
CublasLt::~CublasLt() = default;
CublasLt::CublasLt(CublasLt&&) noexcept = default;
CublasLt& CublasLt::operator=(CublasLt&&) noexcept = default;

Result<CublasLt> CublasLt::create() {
  auto state = std::make_unique<State>();
  CAUSEWAY_TRY(state->start());
  return CublasLt(std::move(state));
}

Status CublasLt::run(const CudaPlan& plan, const CudaOperands& operands, void* workspace,
                     CudaStream stream) {
  const CudaRequest& r = plan.request;
  const Product product = state_->product(plan, operands, workspace);
  const int m = static_cast<int>(r.m), n = static_cast<int>(r.n);
  if (r.bias && product.out_f32) {
    const device::CudaFirstLaunch loading(broadcast_bias, stream);
    broadcast_bias<<<element_grid(r.m, r.n), kElementThreads, 0, stream>>>(
        static_cast<const __nv_bfloat16*>(operands.bias), static_cast<float*>(operands.out),
        operands.out_stride, m, n);
    CAUSEWAY_TRY(cuda_status(cudaGetLastError(), "bias"));
  }
  CAUSEWAY_TRY(state_->run(product, static_cast<char*>(workspace) + kFlagBytes.count, stream));
  if (!r.silu_mul) return {};
  const bool vectors = r.n % 8 == 0 && operands.out_stride % 8 == 0 &&
                       reinterpret_cast<std::uintptr_t>(operands.out) % 16 == 0;
  if (vectors) {
    return activation::run({.rows = r.m,
                            .size = r.n,
                            .gate_up = product.out,
                            .out = operands.out,
                            .out_stride = operands.out_stride},
                           stream);
  }
  const device::CudaFirstLaunch loading(silu_mul_kernel, stream);
  silu_mul_kernel<<<element_grid(r.m, r.n), kElementThreads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(product.out), static_cast<__nv_bfloat16*>(operands.out),
      operands.out_stride, m, n);
  return cuda_status(cudaGetLastError(), "silu");
}

void CublasLt::use_batches(bool use) { state_->batches = use; }

Result<int> CublasLt::algorithms(const CudaPlan& plan, const CudaOperands& operands) {
  CAUSEWAY_ASSIGN(Prepared* const prepared,
                  state_->prepared(state_->product(plan, operands, nullptr)));
  return prepared->count();
}

Status CublasLt::select(const CudaPlan& plan, const CudaOperands& operands, int algorithm) {
  CAUSEWAY_ASSIGN(Prepared* const prepared,
                  state_->prepared(state_->product(plan, operands, nullptr)));
  if (algorithm < 0 || algorithm >= prepared->count()) {
    return invalid_argument("cuBLASLt: no such algorithm");
  }
  prepared->select(algorithm);
  return {};
}

}  // namespace causeway::kernels::gemm
