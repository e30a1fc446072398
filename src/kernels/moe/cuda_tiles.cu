// Many tokens: the tensor maps of the experts' weights, the tiled products, and the weighted sum.
#include <algorithm>
#include <string>

#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_status.cuh"
#include "kernels/moe/cuda_tiles.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr Chunking kChunking = {kTileTokens, kTileUnit};

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, found through the runtime: programs link no libcuda.
Result<EncodeTiled> find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = {};
  CAUSEWAY_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                            12000, cudaEnableDefault, &found),
                           "driver entry point"));
  if (found != cudaDriverEntryPointSuccess) {
    return unsupported("moe: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

// A weight [rows][columns] read in boxes of kTileBox × kTileStepK; `somewhere` stands for where.
Result<CUtensorMap> map_of(EncodeTiled encode, std::int64_t rows, std::int64_t columns,
                           void* somewhere) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride = static_cast<cuuint64_t>(columns) * 2;
  const cuuint32_t box[2] = {kTileStepK, kTileBox}, steps[2] = {1, 1};
  const CUresult code =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, somewhere, sizes, &stride, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    return Error{ErrorCode::kDevice, "moe: tensor map: CUresult " + std::to_string(code)};
  }
  return map;
}

struct MapArgs {
  CUtensorMap gated, down;  // of no expert yet
  const void* const* tables[3];
  CUtensorMap* maps;  // [3][experts]
  int experts;
};

// Grid: (experts, 3), a warp each: an expert's map is the model's with the expert's address.
__global__ void __launch_bounds__(32) map_kernel(const __grid_constant__ MapArgs args) {
  __shared__ __align__(128) CUtensorMap map;
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x), which = static_cast<int>(blockIdx.y);
  const auto* source = reinterpret_cast<const uint32_t*>(which < 2 ? &args.gated : &args.down);
  reinterpret_cast<uint32_t*>(&map)[lane] = source[lane];
  __syncwarp();
  const uint32_t shared = ptx::shared_address(&map);
  if (lane == 0) {
    const void* weight = args.tables[which][blockIdx.x];
    asm volatile(
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(shared),
        "l"(weight)
        : "memory");
  }
  __syncwarp();
  CUtensorMap* target = args.maps + which * args.experts + blockIdx.x;
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(target),
      "r"(shared)
      : "memory");
}

struct SumArgs {
  const Bf16x8* rows;  // [pairs][vectors], sorted
  Groups groups;
  const Bf16x8* residual;  // [tokens][vectors] or null
  Bf16x8* out;             // [tokens][vectors]
  int vectors, k;
};

// Grid: (⌈vectors / 256⌉, tokens): the weighted sum of a token's rows, in the order of choices.
__global__ void __launch_bounds__(256) sum_kernel(const SumArgs a) {
  wait_for_predecessor();
  const int at = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (at >= a.vectors) return;
  const int64_t token = blockIdx.y;
  float sum[8] = {};
#pragma unroll 8
  for (int i = 0; i < a.k; ++i) {
    float part[8];
    const int64_t pair = token * a.k + i;
    const float weight = a.groups.weight[pair];
    widen(a.rows[a.groups.pair_row[pair] * int64_t{a.vectors} + at], part);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += weight * part[j];
  }
  if (a.residual != nullptr) {
    float add[8];
    widen(a.residual[token * a.vectors + at], add);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += add[j];
  }
  a.out[token * a.vectors + at] = narrow(sum);
}

Status make_maps(const ParamsCuda& p, const Scratch& scratch, CudaStream stream) {
  CAUSEWAY_ASSIGN(const EncodeTiled encode, find_encoder());
  const ShapeCuda& s = p.shape;
  MapArgs args = {};
  CAUSEWAY_ASSIGN(args.gated, map_of(encode, s.intermediate, s.hidden, p.workspace));
  CAUSEWAY_ASSIGN(args.down, map_of(encode, s.hidden, s.intermediate, p.workspace));
  args.tables[0] = p.gate;
  args.tables[1] = p.up;
  args.tables[2] = p.down;
  args.maps = static_cast<CUtensorMap*>(scratch.maps);
  args.experts = static_cast<int>(s.experts);
  const dim3 grid(static_cast<unsigned>(s.experts), 3);
  return launch("tensor maps of experts", stream, {grid, dim3(32)}, map_kernel, args);
}

template <bool kGated>
Status launch_tiles(const TileArgs& args, int ctas, CudaStream stream) {
  const LaunchShape shape = {dim3(static_cast<unsigned>(ctas)), dim3(kTileThreads),
                             static_cast<int>(kTileSharedBytes)};
  return launch(kGated ? "experts (gate and up)" : "experts (down)", stream, shape,
                tile_kernel<kGated>, args);
}

}  // namespace

bool tiles_fit(const ShapeCuda& s) {
  return s.hidden % kTileStepK == 0 && s.intermediate % kTileStepK == 0;
}

std::int64_t tiles_chunks_max(const ShapeCuda& shape, std::int64_t tokens) {
  return chunks_max(shape, tokens, kChunking);
}

Status run_tiles(const ParamsCuda& p, const Scratch& scratch, CudaStream stream) {
  const ShapeCuda& s = p.shape;
  CAUSEWAY_TRY(make_maps(p, scratch, stream));
  CAUSEWAY_TRY(enqueue_groups(p, scratch, kChunking, stream));
  const auto* maps = static_cast<const CUtensorMap*>(scratch.maps);
  const int hidden = static_cast<int>(s.hidden), intermediate = static_cast<int>(s.intermediate);
  const int k = static_cast<int>(s.experts_per_token);
  const auto* down_maps = maps + 2 * s.experts;
  CAUSEWAY_TRY(launch_tiles<true>({scratch.groups,
                                   {maps, maps + s.experts},
                                   static_cast<const __nv_bfloat16*>(p.x),
                                   scratch.active,
                                   hidden,
                                   intermediate,
                                   (intermediate + kTileBox - 1) / kTileBox,
                                   k},
                                  p.sm_count, stream));
  CAUSEWAY_TRY(launch_tiles<false>({scratch.groups,
                                    {down_maps, down_maps},
                                    scratch.active,
                                    scratch.down,
                                    intermediate,
                                    hidden,
                                    (hidden + 2 * kTileBox - 1) / (2 * kTileBox),
                                    k},
                                   p.sm_count, stream));
  const SumArgs sum = {reinterpret_cast<const Bf16x8*>(scratch.down),
                       scratch.groups,
                       static_cast<const Bf16x8*>(p.residual),
                       static_cast<Bf16x8*>(p.out),
                       hidden / 8,
                       k};
  const dim3 grid(static_cast<unsigned>((sum.vectors + 255) / 256),
                  static_cast<unsigned>(p.tokens));
  return launch("sum of experts", stream, {grid, dim3(256)}, sum_kernel, sum);
}

}  // namespace causeway::kernels::moe
