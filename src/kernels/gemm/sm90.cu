// Launch of the resident-weight product on Hopper: tensor maps, launch attributes, and the door.
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "device/cuda/cuda_kernel_loading.h"
#include "kernels/cuda_status.cuh"
#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/plain.h"
#include "kernels/gemm/sm90_rows.cuh"
#include "kernels/gemm/sm90_split.cuh"
#include "kernels/gemm/tensor_map.cuh"

namespace causeway::kernels::gemm {
namespace {

// The width of a swizzled box, and the slabs that rows are cut into for it.
constexpr std::int64_t kSlab = 64;
constexpr cuuint64_t kSlabBytes = kSlab * 2;

// Rows of x that a CTA reads at once.
std::int64_t input_box(const CudaPlan& plan) {
  return plan.pairs == CudaPairs::kInputs ? plan.batch / 2 : plan.batch;
}

TensorShape input_shape(const CudaPlan& plan, const CudaOperands& operands) {
  const CudaRequest& r = plan.request;
  const cuuint64_t row = map_size(operands.x_stride) * 2;
  if (plan.path == CudaPath::kSplit) {
    return {2, {map_size(r.k), map_size(r.m)}, {row}, {kSlab, map_box(input_box(plan))}};
  }
  return {3,
          {kSlab, map_size(r.m), map_size(r.k / kSlab)},
          {row, kSlabBytes},
          {kSlab, map_box(plan.batch), map_box(plan.step_k / kSlab)}};
}

// silu_mul: 8 rows of gate, 8 rows of up, by turns, so that one lane's sums hold both.
TensorShape weight_shape(const CudaPlan& plan, const CudaOperands& operands) {
  const CudaRequest& r = plan.request;
  const cuuint64_t row = map_size(operands.w_stride) * 2;
  if (plan.path == CudaPath::kSplit) {
    if (!r.silu_mul) return {2, {map_size(r.k), map_size(r.n)}, {row}, {kSlab, kSplitRows}};
    return {4,
            {map_size(r.k), 8, 2, map_size(r.n / 8)},
            {row, row * map_size(r.n), row * 8},
            {kSlab, 8, 2, kSplitRows / 16}};
  }
  const cuuint32_t slabs = map_box(plan.step_k / kSlab);
  if (!r.silu_mul) {
    return {3,
            {kSlab, map_size(r.n), map_size(r.k / kSlab)},
            {row, kSlabBytes},
            {kSlab, map_box(16 * plan.blocks), slabs}};
  }
  return {5,
          {kSlab, 8, 2, map_size(r.n / 8), map_size(r.k / kSlab)},
          {row, row * map_size(r.n), row * 8, kSlabBytes},
          {kSlab, 8, 2, map_box(plan.blocks), slabs}};
}

bool multiple(const void* pointer, std::int64_t stride, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0 && stride % 2 == 0;
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
  const std::uintptr_t pair = args.out_f32 ? 8 : 4;
  args.pairs = r.n % 2 == 0 && multiple(operands.out, operands.out_stride, pair) &&
               (!r.residual || multiple(operands.residual, operands.residual_stride, 4));
  return args;
}

// The box of the output that the copy engine stores; no columns: it does not store.
struct OutBox {
  cuuint32_t columns = 0, rows = 0;
};

template <typename Args>
struct Choice {
  void (*kernel)(CUtensorMap, CUtensorMap, Args);
  uint32_t threads, stages, shared_bytes;
  OutBox box = {};
  unsigned cluster = 1;
};

Finish finish_of(const OutputArgs& args) {
  if (args.bias != nullptr || !args.pairs) return Finish::kAny;
  if (args.silu_mul) return Finish::kGated;
  return args.out_f32 ? Finish::kF32 : Finish::kPlain;
}

template <int kBatch, Finish kFinish, CudaPairs kPairs>
Choice<SplitArgs> split_choice(CudaShare share) {
  using Ring = SplitRing<kBatch>;
  Choice<SplitArgs> choice = {split_kernel<kBatch, kFinish, kPairs>, kSplitThreads,
                              Ring::stages(share), Ring::shared_bytes(share)};
  if constexpr (kFinish != Finish::kAny) {
    using Boxes = SplitBoxes<kBatch, kFinish, kPairs == CudaPairs::kHalves ? kBatch / 2 : kBatch>;
    static_assert(Boxes::kStages <= kSplitKeptMax &&
                  Boxes::kStages < Ring::stages(CudaShare::kLess));
    choice.box = {Boxes::kBoxColumns, Boxes::kBoxRows};
    choice.cluster = kPairs == CudaPairs::kNone ? 1 : 2;
  }
  return choice;
}

// How CTAs of more than 32 rows go that do not halve a tile's k.
template <Finish kFinish>
constexpr CudaPairs kUndivided = kFinish == Finish::kAny ? CudaPairs::kNone : CudaPairs::kInputs;

template <Finish kFinish>
Choice<SplitArgs> split_choice(int batch, CudaShare share) {
  switch (batch) {
    // Where kRows serves, the general kernels do what a caller asks of kSplit all the same.
    case 8: return split_choice<8, Finish::kAny, CudaPairs::kNone>(share);
    case 16: return split_choice<16, Finish::kAny, CudaPairs::kNone>(share);
    case 32: return split_choice<32, kFinish, CudaPairs::kNone>(share);
    case 64: return split_choice<64, kFinish, kUndivided<kFinish>>(share);
    case 96: return split_choice<96, kFinish, kUndivided<kFinish>>(share);
    default: return split_choice<128, kFinish, kUndivided<kFinish>>(share);
  }
}

Choice<SplitArgs> split_choice(Finish finish, int batch, CudaShare share) {
  switch (finish) {
    case Finish::kPlain: return split_choice<Finish::kPlain>(batch, share);
    case Finish::kGated: return split_choice<Finish::kGated>(batch, share);
    case Finish::kF32: return split_choice<Finish::kF32>(batch, share);
    case Finish::kAny: break;
  }
  return split_choice<Finish::kAny>(batch, share);
}

template <Finish kFinish>
Choice<SplitArgs> halves_choice(int batch, CudaShare share) {
  return batch == 64 ? split_choice<64, kFinish, CudaPairs::kHalves>(share)
                     : split_choice<128, kFinish, CudaPairs::kHalves>(share);
}

Choice<SplitArgs> halves_choice(Finish finish, int batch, CudaShare share) {
  return finish == Finish::kF32 ? halves_choice<Finish::kF32>(batch, share)
                                : halves_choice<Finish::kPlain>(batch, share);
}

// A plane for each part.
TensorShape out_shape(const CudaPlan& plan, const CudaOperands& operands, const OutBox& box) {
  const CudaRequest& r = plan.request;
  const bool f32 = r.out == CudaOut::kF32;
  const cuuint64_t row = map_size(operands.out_stride) * (f32 ? 4 : 2);
  return {3,
          {map_size(r.n), map_size(r.m), map_size(r.parts)},
          {row, row * map_size(r.m)},
          {box.columns, box.rows, 1},
          f32};
}

// What of a plan says which kernel of kRows.
struct RowsKind {
  int batch, blocks;
  bool norm, twice;  // twice: the columns of a step
  CudaShare share;
};

template <Finish kFinish, int kBatch, int kBlocks, bool kNorm, int kHalves = 1>
Choice<RowsArgs> rows_choice(CudaShare share) {
  using Ring = RowsRing<kBatch, kBlocks, kNorm, kHalves>;
  return {rows_kernel<kBatch, kBlocks, kNorm, kHalves, kFinish>, kRowsThreads, Ring::stages(share),
          Ring::shared_bytes(share)};
}

template <Finish kFinish, int kBatch, bool kNorm>
Choice<RowsArgs> rows_choice(const RowsKind& kind) {
  if constexpr (kBatch == 8) {
    if (kind.twice && kind.blocks == 1) {
      return rows_choice<kFinish, kBatch, 1, kNorm, 2>(kind.share);
    }
  }
  switch (kind.blocks) {
    case 1: return rows_choice<kFinish, kBatch, 1, kNorm>(kind.share);
    case 2: return rows_choice<kFinish, kBatch, 2, kNorm>(kind.share);
    default: return rows_choice<kFinish, kBatch, 3, kNorm>(kind.share);
  }
}

template <Finish kFinish, bool kNorm>
Choice<RowsArgs> rows_choice(const RowsKind& kind) {
  if (kind.batch == 8) return rows_choice<kFinish, 8, kNorm>(kind);
  if (kind.batch == 16) return rows_choice<kFinish, 16, kNorm>(kind);
  static_assert(kRowsMax == 32 && kNormRowsMax == 32);
  return rows_choice<kFinish, 32, kNorm>(kind);
}

template <Finish kFinish>
Choice<RowsArgs> rows_choice(const RowsKind& kind) {
  // No model's f32 results have a norm in front inside the product.
  constexpr Finish kNormed = kFinish == Finish::kF32 ? Finish::kAny : kFinish;
  return kind.norm ? rows_choice<kNormed, true>(kind) : rows_choice<kFinish, false>(kind);
}

Choice<RowsArgs> rows_choice(Finish finish, const RowsKind& kind) {
  switch (finish) {
    case Finish::kPlain: return rows_choice<Finish::kPlain>(kind);
    case Finish::kGated: return rows_choice<Finish::kGated>(kind);
    case Finish::kF32: return rows_choice<Finish::kF32>(kind);
    case Finish::kAny: break;
  }
  return rows_choice<Finish::kAny>(kind);
}

// The whole of the SM's memory as shared memory: two kernels' CTAs beside each other need it, and
// changing the split between kernels would empty the SM.
template <typename Args>
Status allow_shared_memory(const Choice<Args>& choice) {
  CAUSEWAY_TRY(
      cuda_status(cudaFuncSetAttribute(choice.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(choice.shared_bytes)),
                  "GEMM: shared memory"));
  return cuda_status(
      cudaFuncSetAttribute(choice.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                           cudaSharedmemCarveoutMaxShared),
      "GEMM: carve-out");
}

Status allow_shared_memory(Finish finish) {
  for (const int batch : {8, 16, 32, 64, 96, 128}) {
    CAUSEWAY_TRY(allow_shared_memory(split_choice(finish, batch, CudaShare::kMore)));
  }
  for (const int batch : {64, 128}) {
    CAUSEWAY_TRY(allow_shared_memory(halves_choice(finish, batch, CudaShare::kMore)));
  }
  for (const int batch : {8, 16, 32}) {
    for (int blocks = 1; blocks <= kRowsBlocksMax; ++blocks) {
      for (const bool norm : {false, true}) {
        for (const bool twice : {false, true}) {
          if (twice && (batch != 8 || blocks != 1)) continue;
          const RowsKind kind = {batch, blocks, norm, twice, CudaShare::kMore};
          CAUSEWAY_TRY(allow_shared_memory(rows_choice(finish, kind)));
        }
      }
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
  const device::CudaFirstLaunch loading(choice.kernel, stream);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = overlap == Overlap::kYes ? 1 : 0;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = choice.cluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(choice.threads);
  config.dynamicSmemBytes = choice.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = choice.cluster > 1 ? 2 : 1;
  return cuda_status(cudaLaunchKernelEx(&config, choice.kernel, maps.x, maps.w, args),
                     "GEMM: launch");
}

Status launch_rows(const CudaPlan& plan, const CudaOperands& operands, const Maps& maps,
                   cudaStream_t stream, Overlap overlap) {
  const OutputArgs output = output_args(plan.request, operands);
  const auto choice = rows_choice(
      finish_of(output),
      {plan.batch, plan.blocks, plan.request.norm, plan.step_k > kRowsStepK, plan.request.share});
  const RowsArgs args = {.output = output,
                         .tiles = EvenShares::of(plan.tiles, plan.ctas),
                         .k_steps = plan.k_steps,
                         .stages = choice.stages,
                         .gains = static_cast<const __nv_bfloat16*>(operands.gains),
                         .epsilon = operands.epsilon};
  return launch(choice, maps, args, plan.ctas, stream, overlap);
}

Status launch_split(EncodeTiled encoder, const CudaPlan& plan, const CudaOperands& operands,
                    const Maps& maps, void* workspace, cudaStream_t stream, Overlap overlap) {
  const OutputArgs output = output_args(plan.request, operands);
  const Finish finish = plan.boxes ? finish_of(output) : Finish::kAny;
  const auto choice = plan.pairs == CudaPairs::kHalves
                          ? halves_choice(finish, plan.batch, plan.request.share)
                          : split_choice(finish, plan.batch, plan.request.share);
  SplitArgs args = {};
  if (plan.boxes) {
    CAUSEWAY_ASSIGN(args.out_map,
                    encode(encoder, operands.out, out_shape(plan, operands, choice.box)));
  }
  args.output = output;
  args.flags = static_cast<uint32_t*>(workspace);
  args.partials = reinterpret_cast<float4*>(static_cast<char*>(workspace) + kFlagBytes.count);
  args.steps = EvenShares::of(std::int64_t{plan.tiles} * plan.k_steps,
                              plan.pairs == CudaPairs::kInputs ? plan.ctas / 2 : plan.ctas);
  args.tiles = plan.tiles / plan.request.parts;
  args.k_steps = plan.k_steps;
  args.stages = choice.stages;
  for (std::size_t i = 0; i < kDiscardsMax; ++i) {
    args.discards[i] = discard_lines(operands.discards[i]);
  }
  return launch(choice, maps, args, plan.ctas, stream, overlap);
}

// What rows_choice() has a kernel for.
bool step_fits(const CudaPlan& plan) {
  if (plan.path != CudaPath::kRows || plan.step_k == kRowsStepK) return true;
  return plan.step_k == 2 * kRowsStepK && plan.batch == 8 && plan.blocks == 1;
}

Status check(const CudaPlan& plan, const CudaOperands& operands, const void* workspace) {
  const CudaRequest& r = plan.request;
  const bool missing = operands.x == nullptr || operands.w == nullptr || operands.out == nullptr ||
                       workspace == nullptr || (r.bias && operands.bias == nullptr) ||
                       (r.residual && operands.residual == nullptr) ||
                       (r.norm && operands.gains == nullptr);
  if (missing) return invalid_argument("GEMM: the plan needs an operand that is null");
  if (operands.x_stride < r.k || operands.w_stride < r.k || operands.out_stride < r.n ||
      (r.residual && operands.residual_stride < r.n)) {
    return invalid_argument("GEMM: a row stride is shorter than its row");
  }
  if (!step_fits(plan)) return invalid_argument("GEMM: no kernel has such steps");
  if (plan.boxes && !boxed(operands, r.out)) {
    return invalid_argument("GEMM: the plan needs an out that TMA can store to");
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
    CAUSEWAY_ASSIGN(const Maps maps, encode_maps(encoder_, plan, operands));
    if (plan.path == CudaPath::kRows) return launch_rows(plan, operands, maps, stream, overlap);
    return launch_split(encoder_, plan, operands, maps, workspace, stream, overlap);
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
  const device::CudaLoading loading;
  for (const Finish finish : {Finish::kPlain, Finish::kGated, Finish::kF32, Finish::kAny}) {
    CAUSEWAY_TRY(allow_shared_memory(finish));
  }
  CAUSEWAY_ASSIGN(CublasLt library, CublasLt::create());
  CAUSEWAY_ASSIGN(const EncodeTiled encoder, find_encoder());
  return CudaGemm(std::make_unique<State>(std::move(library), encoder));
}

Status CudaGemm::prepare(void* workspace, CudaStream stream) {
  return cuda_status(cudaMemsetAsync(workspace, 0, to_size(kFlagBytes), stream), "GEMM: workspace");
}

Status CudaGemm::run(const CudaPlan& plan, const CudaOperands& operands, void* workspace,
                     CudaStream stream, Overlap overlap) {
  return state_->run(plan, operands, workspace, stream, overlap);
}

}  // namespace causeway::kernels::gemm
