// Launch of the resident-weight product on Hopper: tensor maps, launch attributes, and the door.
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/plain.h"
#include "kernels/gemm/sm90_rows.cuh"
#include "kernels/gemm/sm90_split.cuh"

namespace causeway::kernels::gemm {
namespace {

Error device_error(const std::string& what, const std::string& why) {
  return {ErrorCode::kDevice, "GEMM: " + what + ": " + why};
}

Status cuda_status(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return device_error(what, cudaGetErrorString(code));
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's encoder, found through the runtime: nothing links libcuda.
Result<EncodeTiled> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  CAUSEWAY_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                            12000, cudaEnableDefault, &found),
                           "driver entry point"));
  if (found != cudaDriverEntryPointSuccess) {
    return unsupported("GEMM: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

// A bf16 tensor of up to five dimensions, innermost first, read in swizzled boxes.
struct TensorShape {
  cuuint32_t rank;
  cuuint64_t sizes[5];
  cuuint64_t strides[4];  // bytes, of dimensions 1 …
  cuuint32_t box[5];
};

Result<CUtensorMap> encode(EncodeTiled encoder, const void* data, const TensorShape& shape) {
  CUtensorMap map;
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  const CUresult code = encoder(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, shape.rank,
                                const_cast<void*>(data), shape.sizes, shape.strides, shape.box,
                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) return device_error("tensor map", "CUresult " + std::to_string(code));
  return map;
}

cuuint64_t size(std::int64_t n) { return static_cast<cuuint64_t>(n); }

cuuint32_t box(std::int64_t n) { return static_cast<cuuint32_t>(n); }

// The width of a swizzled box, and the slabs that rows are cut into for it.
constexpr std::int64_t kSlab = 64;
constexpr cuuint64_t kSlabBytes = kSlab * 2;

TensorShape input_shape(const CudaPlan& plan, const CudaOperands& operands) {
  const CudaRequest& r = plan.request;
  const cuuint64_t row = size(operands.x_stride) * 2;
  if (plan.path == CudaPath::kSplit) {
    return {2, {size(r.k), size(r.m)}, {row}, {kSlab, box(plan.batch)}};
  }
  return {3,
          {kSlab, size(r.m), size(r.k / kSlab)},
          {row, kSlabBytes},
          {kSlab, box(plan.batch), kRowsStepK / kSlab}};
}

// silu_mul: 8 rows of gate, 8 rows of up, by turns, so that one lane's sums hold both.
TensorShape weight_shape(const CudaPlan& plan, const CudaOperands& operands) {
  const CudaRequest& r = plan.request;
  const cuuint64_t row = size(operands.w_stride) * 2;
  if (plan.path == CudaPath::kSplit) {
    if (!r.silu_mul) return {2, {size(r.k), size(r.n)}, {row}, {kSlab, kSplitRows}};
    return {4,
            {size(r.k), 8, 2, size(r.n / 8)},
            {row, row * size(r.n), row * 8},
            {kSlab, 8, 2, kSplitRows / 16}};
  }
  constexpr cuuint32_t kSlabs = kRowsStepK / kSlab;
  if (!r.silu_mul) {
    return {3,
            {kSlab, size(r.n), size(r.k / kSlab)},
            {row, kSlabBytes},
            {kSlab, box(16 * plan.blocks), kSlabs}};
  }
  return {5,
          {kSlab, 8, 2, size(r.n / 8), size(r.k / kSlab)},
          {row, row * size(r.n), row * 8, kSlabBytes},
          {kSlab, 8, 2, box(plan.blocks), kSlabs}};
}

bool multiple(const void* pointer, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 4 == 0 && stride % 2 == 0;
}

OutputArgs output_args(const CudaRequest& r, const CudaOperands& operands) {
  OutputArgs args = {};
  args.out = operands.out;
  args.out_stride = operands.out_stride;
  if (r.bias) args.bias = static_cast<const __nv_bfloat16*>(operands.bias);
  if (r.residual) args.residual = static_cast<const __nv_bfloat16*>(operands.residual);
  args.residual_stride = operands.residual_stride;
  args.m = static_cast<int>(r.m);
  args.n = static_cast<int>(r.n);
  args.out_f32 = r.out == CudaOut::kF32;
  args.silu_mul = r.silu_mul;
  args.pairs = r.n % 2 == 0 && multiple(operands.out, operands.out_stride) &&
               (!r.residual || multiple(operands.residual, operands.residual_stride));
  return args;
}

template <typename Args>
struct Choice {
  void (*kernel)(CUtensorMap, CUtensorMap, Args);
  uint32_t threads, shared_bytes;
};

template <int kBatch>
Choice<SplitArgs> split_choice() {
  return {split_kernel<kBatch>, kSplitThreads, SplitRing<kBatch>::kSharedBytes};
}

Choice<SplitArgs> split_choice(int batch) {
  switch (batch) {
    case 8: return split_choice<8>();
    case 16: return split_choice<16>();
    case 32: return split_choice<32>();
    case 64: return split_choice<64>();
    default: return split_choice<128>();
  }
}

template <int kBatch, int kBlocks>
Choice<RowsArgs> rows_choice() {
  return {rows_kernel<kBatch, kBlocks>, kRowsThreads, RowsRing<kBatch, kBlocks>::kSharedBytes};
}

template <int kBatch>
Choice<RowsArgs> rows_choice(int blocks) {
  switch (blocks) {
    case 1: return rows_choice<kBatch, 1>();
    case 2: return rows_choice<kBatch, 2>();
    default: return rows_choice<kBatch, 3>();
  }
}

Choice<RowsArgs> rows_choice(int batch, int blocks) {
  if (batch == 8) return rows_choice<8>(blocks);
  return batch == 16 ? rows_choice<16>(blocks) : rows_choice<32>(blocks);
}

// The whole of the SM's memory as shared memory: two kernels' CTAs beside each other need it, and
// changing the split between kernels would empty the SM.
template <typename Args>
Status allow_shared_memory(const Choice<Args>& choice) {
  CAUSEWAY_TRY(
      cuda_status(cudaFuncSetAttribute(choice.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(choice.shared_bytes)),
                  "shared memory"));
  return cuda_status(
      cudaFuncSetAttribute(choice.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                           cudaSharedmemCarveoutMaxShared),
      "carve-out");
}

Status allow_shared_memory() {
  for (const int batch : {8, 16, 32, 64, 128}) {
    CAUSEWAY_TRY(allow_shared_memory(split_choice(batch)));
    for (int blocks = 1; blocks <= kRowsBlocksMax && batch <= kRowsMax; ++blocks) {
      CAUSEWAY_TRY(allow_shared_memory(rows_choice(batch, blocks)));
    }
  }
  return {};
}

// The two maps of a launch.
struct Maps {
  CUtensorMap x, w;
};

Result<Maps> encode_maps(EncodeTiled encoder, const CudaPlan& plan, const CudaOperands& operands) {
  if (!aligned(operands)) return invalid_argument("GEMM: the plan needs aligned operands");
  Maps maps;
  CAUSEWAY_ASSIGN(maps.x, encode(encoder, operands.x, input_shape(plan, operands)));
  CAUSEWAY_ASSIGN(maps.w, encode(encoder, operands.w, weight_shape(plan, operands)));
  return maps;
}

template <typename Args>
Status launch(const Choice<Args>& choice, const Maps& maps, const Args& args, int ctas,
              cudaStream_t stream, Overlap overlap) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = overlap == Overlap::kYes ? 1 : 0;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(choice.threads);
  config.dynamicSmemBytes = choice.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cuda_status(cudaLaunchKernelEx(&config, choice.kernel, maps.x, maps.w, args), "launch");
}

Status launch_own(EncodeTiled encoder, const CudaPlan& plan, const CudaOperands& operands,
                  void* workspace, cudaStream_t stream, Overlap overlap) {
  CAUSEWAY_ASSIGN(const Maps maps, encode_maps(encoder, plan, operands));
  const OutputArgs output = output_args(plan.request, operands);
  if (plan.path == CudaPath::kRows) {
    const RowsArgs args = {output, plan.tiles, plan.k_steps};
    return launch(rows_choice(plan.batch, plan.blocks), maps, args, plan.ctas, stream, overlap);
  }
  SplitArgs args = {};
  args.output = output;
  args.counters = static_cast<uint32_t*>(workspace);
  args.partials = reinterpret_cast<float4*>(static_cast<char*>(workspace) + kCounterBytes.count);
  args.tiles = plan.tiles;
  args.k_steps = plan.k_steps;
  return launch(split_choice(plan.batch), maps, args, plan.ctas, stream, overlap);
}

Status check(const CudaPlan& plan, const CudaOperands& operands, const void* workspace) {
  const CudaRequest& r = plan.request;
  const bool missing = operands.x == nullptr || operands.w == nullptr || operands.out == nullptr ||
                       workspace == nullptr || (r.bias && operands.bias == nullptr) ||
                       (r.residual && operands.residual == nullptr);
  if (missing) return invalid_argument("GEMM: the plan needs an operand that is null");
  if (operands.x_stride < r.k || operands.w_stride < r.k || operands.out_stride < r.n ||
      (r.residual && operands.residual_stride < r.n)) {
    return invalid_argument("GEMM: a row stride is shorter than its row");
  }
  if (plan.path == CudaPath::kLibrary && !paired(operands)) {
    return invalid_argument("GEMM: kLibrary needs operands that cuBLASLt can address");
  }
  return {};
}

}  // namespace

class CudaGemm::State {
 public:
  State(CublasLt library, EncodeTiled encoder) : library_(std::move(library)), encoder_(encoder) {}

  Status run(const CudaPlan& plan, const CudaOperands& operands, void* workspace, CudaStream stream,
             Overlap overlap) {
    CAUSEWAY_TRY(check(plan, operands, workspace));
    if (plan.path == CudaPath::kLibrary) return library_.run(plan, operands, workspace, stream);
    if (plan.path == CudaPath::kPlain) return run_plain(plan, operands, stream);
    return launch_own(encoder_, plan, operands, workspace, stream, overlap);
  }

 private:
  CublasLt library_;
  EncodeTiled encoder_;
};

CudaGemm::CudaGemm(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaGemm::~CudaGemm() = default;
CudaGemm::CudaGemm(CudaGemm&&) noexcept = default;
CudaGemm& CudaGemm::operator=(CudaGemm&&) noexcept = default;

Result<CudaGemm> CudaGemm::create() {
  CAUSEWAY_TRY(allow_shared_memory());
  CAUSEWAY_ASSIGN(CublasLt library, CublasLt::create());
  CAUSEWAY_ASSIGN(const EncodeTiled encoder, find_encoder());
  return CudaGemm(std::make_unique<State>(std::move(library), encoder));
}

Status CudaGemm::prepare(void* workspace, CudaStream stream) {
  return cuda_status(cudaMemsetAsync(workspace, 0, to_size(kCounterBytes), stream), "workspace");
}

Status CudaGemm::run(const CudaPlan& plan, const CudaOperands& operands, void* workspace,
                     CudaStream stream, Overlap overlap) {
  return state_->run(plan, operands, workspace, stream, overlap);
}

}  // namespace causeway::kernels::gemm
