// HybridGEMM for Hopper: one persistent kernel whose CTAs take roles, and its launch.
#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/cuda_first_launch.h"
#include "kernels/cuda_status.cuh"
#include "kernels/gemm/tensor_map.cuh"
#include "kernels/hybrid_gemm/hybrid_gemm.h"
#include "kernels/hybrid_gemm/sm90_stream.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::hybrid_gemm {
namespace {

// Grid: [symmetric CTAs | asymmetric CTAs | relaying CTAs]; no cluster straddles a boundary. Per
// CTA one warpgroup feeds (its first warp; of a relaying CTA all of them) and two multiply.
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
  const bool relay = static_cast<int>(blockIdx.x) >= args.symmetric_ctas + args.asymmetric_ctas;

  // ---- barriers -----------------------------------------------------------------------------
  if (threadIdx.x == 0) {
    ptx::prefetch_map(&x_map);
    ptx::prefetch_map(&w_map);
    if (relay) {
      relay_init(place);
    } else {
      stream_init(args, place);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  if (args.cluster > 1) ptx::cluster_sync();

  // ---- roles --------------------------------------------------------------------------------
  if (place.warp < 4) {
    ptx::registers_give<56>();
    if (relay) {
      if (place.lane == 0) ring_relay(args, &w_map, place);
    } else if (place.warp == 0) {
      stream_produce(args, !symmetric, &x_map, &w_map, place);
    }
    __syncwarp();
  } else {
    ptx::registers_take<224>();
    // In a relaying CTA the feeding warps do all there is to do.
    if (!relay) stream_consume(args, !symmetric, place);
  }

  // ---- leave together: peers may still arrive at this CTA's barriers --------------------------
  if (args.cluster > 1) ptx::cluster_sync();
}

constexpr int kPlainTile = 32;

// What TMA cannot address: a 32×32 tile of O per block through shared memory.
__global__ void plain_kernel(const __nv_bfloat16* x,  // [m × k]
                             const __nv_bfloat16* w,  // [n × k]
                             __nv_bfloat16* o,        // [m × n]
                             int64_t x_stride, int64_t w_stride, int64_t o_stride,
                             const __nv_bfloat16* bias,      // [n] or null
                             const __nv_bfloat16* residual,  // [m × n] or null
                             int64_t residual_stride, int m, int n, int k) {
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
      if (r >= m || column >= n) continue;
      if (bias != nullptr) sums[i] += __bfloat162float(bias[column]);
      if (residual != nullptr) {
        sums[i] += __bfloat162float(residual[r * residual_stride + column]);
      }
      o[r * o_stride + column] = __float2bfloat16_rn(sums[i]);
    }
  }
}

// A bf16 matrix [rows × columns] read in swizzled boxes of box_rows × 64.
gemm::TensorShape boxes_of(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                           int box_rows, CUtensorMapL2promotion l2) {
  return {.rank = 2,
          .sizes = {gemm::map_size(columns), gemm::map_size(rows)},
          .strides = {gemm::map_size(stride) * 2},
          .box = {gemm::map_box(kStepK), gemm::map_box(box_rows)},
          .l2 = l2};
}

Status launch_plain(const Plan& plan, const Operands& operands, cudaStream_t stream) {
  const Shape& s = plan.shape;
  const auto blocks = [](std::int64_t size) { return (size + kPlainTile - 1) / kPlainTile; };
  const dim3 grid(static_cast<unsigned>(blocks(s.n)),
                  static_cast<unsigned>(std::min<std::int64_t>(blocks(s.m), 65535)));
  const device::CudaFirstLaunch loading(plain_kernel, stream);
  plain_kernel<<<grid, dim3(kPlainTile, 8), 0, stream>>>(
      static_cast<const __nv_bfloat16*>(operands.x), static_cast<const __nv_bfloat16*>(operands.w),
      static_cast<__nv_bfloat16*>(operands.o), operands.x_stride, operands.w_stride,
      operands.o_stride, static_cast<const __nv_bfloat16*>(operands.bias),
      static_cast<const __nv_bfloat16*>(operands.residual), operands.residual_stride,
      static_cast<int>(s.m), static_cast<int>(s.n), static_cast<int>(s.k));
  return cuda_status(cudaGetLastError(), "HybridGEMM: launch");
}

KernelArgs make_args(const Plan& plan, const Operands& operands) {
  KernelArgs args = {};
  args.o = static_cast<__nv_bfloat16*>(operands.o);
  args.o_stride = operands.o_stride;
  args.bias = static_cast<const __nv_bfloat16*>(operands.bias);
  args.residual = static_cast<const __nv_bfloat16*>(operands.residual);
  args.residual_stride = operands.residual_stride;
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
  args.slots = plan.slots;
  args.ring_group = plan.ring_group;
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
      "HybridGEMM: shared memory");
}

}  // namespace

Result<std::array<int, 4>> clusters_that_fit(void* stream) {
  const device::CudaFirstLaunch loading(hybrid_kernel, static_cast<cudaStream_t>(stream));
  CAUSEWAY_TRY(allow_shared_memory());
  std::array<int, 4> fit = {};
  for (int i = 0; i < 4; ++i) {
    const LaunchConfig launcher(1 << i, 1 << i, false, static_cast<cudaStream_t>(stream));
    CAUSEWAY_TRY(cuda_status(cudaOccupancyMaxActiveClusters(&fit[static_cast<std::size_t>(i)],
                                                            hybrid_kernel, &launcher.config),
                             "HybridGEMM: clusters that fit"));
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
  CAUSEWAY_ASSIGN(const gemm::EncodeTiled encoder, gemm::find_encoder());
  CAUSEWAY_ASSIGN(const CUtensorMap x_map,
                  gemm::encode(encoder, operands.x,
                               boxes_of(s.m, s.k, operands.x_stride, kBoxRows,
                                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B)));
  CAUSEWAY_ASSIGN(const CUtensorMap w_map,
                  gemm::encode(encoder, operands.w,
                               boxes_of(s.n, s.k, operands.w_stride, kTileN / plan.cluster_ctas,
                                        CU_TENSOR_MAP_L2_PROMOTION_NONE)));
  const device::CudaFirstLaunch loading(hybrid_kernel, stream);
  CAUSEWAY_TRY(allow_shared_memory());
  if (plan.flag_bytes.count > 0) {
    CAUSEWAY_TRY(
        cuda_status(cudaMemsetAsync(operands.workspace, 0, to_size(plan.flag_bytes), stream),
                    "HybridGEMM: flags"));
  }

  const LaunchConfig launcher(plan.symmetric_ctas + plan.asymmetric_ctas + plan.relay_ctas,
                              plan.cluster_ctas, plan.asymmetric_ctas > 0, stream);
  return cuda_status(
      cudaLaunchKernelEx(&launcher.config, hybrid_kernel, x_map, w_map, make_args(plan, operands)),
      "HybridGEMM: launch");
}

}  // namespace causeway::kernels::hybrid_gemm
