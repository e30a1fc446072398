// HybridGEMM for Hopper: one persistent kernel whose CTAs take roles, and its launch.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "kernels/hybrid_gemm/hybrid_gemm.h"
#include "kernels/hybrid_gemm/sm90_panel.cuh"
#include "kernels/hybrid_gemm/sm90_stream.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::hybrid_gemm {
namespace {

// Grid: [symmetric CTAs | asymmetric CTAs | relaying CTAs]; no cluster straddles a boundary. Per
// CTA one warpgroup feeds (warp 0 the stages, warp 1 the panel) and two multiply.
__global__ void __launch_bounds__(kThreads, 1)
    hybrid_kernel(const __grid_constant__ CUtensorMap x_map,
                  const __grid_constant__ CUtensorMap w_map,
                  const __grid_constant__ KernelArgs args) {
  // ---- place --------------------------------------------------------------------------------
  extern __shared__ char shared[];
  Place place;
  place.memory = (ptx::shared_address(shared) + 1023) & ~1023u;
  place.barriers = place.memory + kTileMemory;
  place.rank = args.cluster > 1 ? ptx::cluster_rank() : 0;
  place.warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  place.lane = static_cast<int>(threadIdx.x) % 32;
  const bool symmetric = static_cast<int>(blockIdx.x) < args.symmetric_ctas;
  const bool panel = !symmetric && !args.ring;
  const bool relay =
      args.ring && static_cast<int>(blockIdx.x) >= args.symmetric_ctas + args.asymmetric_ctas;

  // ---- barriers -----------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    ptx::prefetch_map(&x_map);
    ptx::prefetch_map(&w_map);
    if (panel) {
      panel_init(place);
    } else if (relay) {
      relay_init(place);
    } else {
      stream_init(args, place);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  if (args.cluster > 1) ptx::cluster_sync();

  // ---- roles --------------------------------------------------------------------------------
  const bool idle = panel && PanelWalk(args).idle(args);
  if (place.warp < 4) {
    ptx::registers_give<56>();
    if (relay) {
      if (place.lane == 0) ring_relay(args, &w_map, place);
    } else if (place.warp == 0 && !idle) {
      if (!panel) {
        stream_produce(args, !symmetric, &x_map, &w_map, place);
      } else if (place.lane == 0) {
        panel_produce(args, &x_map, place);
      }
    } else if (place.warp == 1 && place.lane == 0 && panel && !idle) {
      panel_load(args, &w_map, place);
    }
    __syncwarp();
  } else {
    ptx::registers_take<224>();
    if (relay) {
      // Its feeding warp does all there is to do.
    } else if (!panel) {
      stream_consume(args, !symmetric, place);
    } else if (!idle) {
      panel_consume(args, place);
    }
  }

  // ---- leave together: peers may still arrive at this CTA's barriers --------------------------
  if (args.cluster > 1) ptx::cluster_sync();
}

constexpr int kPlainTile = 32;

// What TMA cannot address: a 32×32 tile of O per block through shared memory.
__global__ void plain_kernel(const __nv_bfloat16* x,  // [m × k]
                             const __nv_bfloat16* w,  // [n × k]
                             __nv_bfloat16* o,        // [m × n]
                             int64_t x_stride, int64_t w_stride, int64_t o_stride, int m, int n,
                             int k) {
  __shared__ float x_tile[kPlainTile][kPlainTile + 1];
  __shared__ float w_tile[kPlainTile][kPlainTile + 1];
  const int column = blockIdx.x * kPlainTile + threadIdx.x;
  for (int row0 = blockIdx.y * kPlainTile; row0 < m; row0 += gridDim.y * kPlainTile) {
    float sums[4] = {};
    for (int k0 = 0; k0 < k; k0 += kPlainTile) {
      const int kk = k0 + static_cast<int>(threadIdx.x);
      for (int i = 0; i < 4; ++i) {
        const int r = static_cast<int>(threadIdx.y) + i * 8;
        const int w_row = blockIdx.x * kPlainTile + r;
        const bool x_in = row0 + r < m && kk < k;
        const bool w_in = w_row < n && kk < k;
        x_tile[r][threadIdx.x] = x_in ? __bfloat162float(x[(row0 + r) * x_stride + kk]) : 0.0f;
        w_tile[r][threadIdx.x] = w_in ? __bfloat162float(w[w_row * w_stride + kk]) : 0.0f;
      }
      __syncthreads();
      for (int j = 0; j < kPlainTile; ++j) {
        for (int i = 0; i < 4; ++i) {
          sums[i] += x_tile[threadIdx.y + i * 8][j] * w_tile[threadIdx.x][j];
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
      const int r = row0 + static_cast<int>(threadIdx.y) + i * 8;
      if (r < m && column < n) o[r * o_stride + column] = __float2bfloat16_rn(sums[i]);
    }
  }
}

Error device_error(const std::string& what, const char* why) {
  return {ErrorCode::kDevice, "HybridGEMM: " + what + ": " + why};
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
    return unsupported("HybridGEMM: the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<EncodeTiled>(function);
}

// A bf16 matrix [rows × columns] read in swizzled boxes of box_rows × 64. `l2`: how much L2 fetches
// at a time; more than a box row would cross the link for nothing.
Result<CUtensorMap> encode(EncodeTiled encoder, const void* matrix, std::int64_t rows,
                           std::int64_t columns, std::int64_t stride, int box_rows,
                           CUtensorMapL2promotion l2) {
  CUtensorMap map;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(kStepK), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult code =
      encoder(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix), sizes, strides,
              box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, l2,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    return device_error("tensor map", ("CUresult " + std::to_string(code)).c_str());
  }
  return map;
}

Status launch_plain(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const Shape& s = plan.shape;
  const auto blocks = [](std::int64_t size) { return (size + kPlainTile - 1) / kPlainTile; };
  const dim3 grid(static_cast<unsigned>(blocks(s.n)),
                  static_cast<unsigned>(std::min<std::int64_t>(blocks(s.m), 65535)));
  plain_kernel<<<grid, dim3(kPlainTile, 8), 0, stream>>>(
      static_cast<const __nv_bfloat16*>(operands.x), static_cast<const __nv_bfloat16*>(operands.w),
      static_cast<__nv_bfloat16*>(operands.o), operands.x_stride, operands.w_stride,
      operands.o_stride, static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k));
  return cuda_status(cudaGetLastError(), "launch");
}

KernelArgs make_args(const Plan& plan, const Operands& operands) {
  KernelArgs args = {};
  args.o = static_cast<__nv_bfloat16*>(operands.o);
  args.o_stride = operands.o_stride;
  args.flags = static_cast<uint32_t*>(operands.workspace);
  args.scratch = static_cast<char*>(operands.workspace) + plan.flag_bytes.count;
  args.m = static_cast<int>(plan.shape.m);
  args.n = static_cast<int>(plan.shape.n);
  args.n_symmetric = static_cast<int>(plan.n_symmetric);
  args.k_steps = static_cast<int>((plan.shape.k + kStepK - 1) / kStepK);
  args.cluster = plan.cluster_ctas;
  args.symmetric_ctas = plan.symmetric_ctas;
  args.asymmetric_ctas = plan.asymmetric_ctas;
  args.relay_ctas = plan.relay_ctas;
  args.groups = plan.groups;
  args.group_ctas = plan.group_ctas;
  args.passes = plan.passes;
  args.load_window = plan.load_window;
  args.slots = plan.slots;
  args.ring_group = plan.ring_group;
  args.ring = plan.asymmetric == Asymmetric::kRing;
  args.vector_stores = plan.shape.n % 8 == 0 && operands.o_stride % 8 == 0 &&
                       reinterpret_cast<std::uintptr_t>(operands.o) % 16 == 0;
  return args;
}

// A launch configuration together with the attributes that it points to.
struct LaunchConfig {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};

  LaunchConfig(int ctas, int cluster, bool cooperative, cudaStream_t stream) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = cooperative ? 1 : 0;
    config.gridDim = dim3(static_cast<unsigned>(ctas));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;
};

// Per device, hence at every launch: it costs nothing when it is already so.
Status allow_shared_memory() {
  return cuda_status(
      cudaFuncSetAttribute(hybrid_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(kSharedBytes)),
      "shared memory");
}

}  // namespace

Result<std::array<int, 4>> clusters_that_fit(void* stream) {
  CAUSEWAY_TRY(allow_shared_memory());
  std::array<int, 4> fit = {};
  for (int i = 0; i < 4; ++i) {
    const LaunchConfig launcher(1 << i, 1 << i, false, static_cast<cudaStream_t>(stream));
    CAUSEWAY_TRY(cuda_status(cudaOccupancyMaxActiveClusters(&fit[static_cast<std::size_t>(i)],
                                                            hybrid_kernel, &launcher.config),
                             "clusters that fit"));
  }
  return fit;
}

Status launch(const Plan& plan, const Operands& operands, void* stream_handle) {
  const auto stream = static_cast<cudaStream_t>(stream_handle);
  if (plan.variant == Variant::kPlain) return launch_plain(plan, operands, stream);
  if (!aligned(operands)) return invalid_argument("HybridGEMM: the plan needs aligned operands");
  if (plan.workspace.count > 0 && operands.workspace == nullptr) {
    return invalid_argument("HybridGEMM: the plan needs a workspace");
  }
  const Shape& s = plan.shape;
  CAUSEWAY_ASSIGN(const EncodeTiled encoder, find_encoder());
  CAUSEWAY_ASSIGN(const CUtensorMap x_map, encode(encoder, operands.x, s.m, s.k, operands.x_stride,
                                                  kBoxRows, CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
  CAUSEWAY_ASSIGN(const CUtensorMap w_map,
                  encode(encoder, operands.w, s.n, s.k, operands.w_stride,
                         kTileN / plan.cluster_ctas, CU_TENSOR_MAP_L2_PROMOTION_NONE));
  CAUSEWAY_TRY(allow_shared_memory());
  if (plan.flag_bytes.count > 0) {
    CAUSEWAY_TRY(cuda_status(
        cudaMemsetAsync(operands.workspace, 0, to_size(plan.flag_bytes), stream), "flags"));
  }

  const LaunchConfig launcher(plan.symmetric_ctas + plan.asymmetric_ctas + plan.relay_ctas,
                              plan.cluster_ctas, plan.asymmetric_ctas > 0, stream);
  return cuda_status(
      cudaLaunchKernelEx(&launcher.config, hybrid_kernel, x_map, w_map, make_args(plan, operands)),
      "launch");
}

}  // namespace causeway::kernels::hybrid_gemm
