#include <cmath>
#include <string>
#include <utility>

#include "bench/kernels/home_bench_memory.cuh"
#include "kernels/cuda_status.cuh"

namespace causeway::kernels::home_gemm {
namespace {

// Sums of (a - b)² and b² over all elements; an element that is not finite counts as infinite.
__global__ void compare(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t size,
                        double* sums) {
  double difference = 0, scale = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size;
       i += int64_t{gridDim.x} * blockDim.x) {
    const double x = __bfloat162float(a[i]), y = __bfloat162float(b[i]);
    difference += (x - y) * (x - y);
    scale += y * y;
  }
  atomicAdd(sums, isfinite(difference) ? difference : 1e300);
  atomicAdd(sums + 1, scale);
}

// Reads `size` 16-byte words once.
__global__ void read_all(const uint4* source, int64_t size, unsigned* sink) {
  unsigned sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (; i + 3 * stride < size; i += 4 * stride) {
    const uint4 a = source[i], b = source[i + stride], c = source[i + 2 * stride],
                d = source[i + 3 * stride];
    sum += a.x ^ b.y ^ c.z ^ d.w;
  }
  for (; i < size; i += stride) sum += source[i].x;
  if (sum == 0x12345678) *sink = sum;
}

Result<DeviceMemory> peer_memory(std::int64_t bytes, int gpu) {
  int count = 0, readable = 0;
  CAUSEWAY_TRY(cuda_status(cudaGetDeviceCount(&count), "counting GPUs"));
  const int peer = gpu == 0 ? 1 : 0;
  if (count < 2) return unavailable("--home peer needs a second GPU; this machine has one");
  CAUSEWAY_TRY(cuda_status(cudaDeviceCanAccessPeer(&readable, gpu, peer), "asking for a peer"));
  if (readable == 0) {
    return unavailable("GPU " + std::to_string(gpu) + " cannot read the memory of GPU " +
                       std::to_string(peer));
  }
  void* memory = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaSetDevice(peer), "the peer"));
  const cudaError_t code = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  CAUSEWAY_TRY(cuda_status(cudaSetDevice(gpu), "the GPU"));
  CAUSEWAY_TRY(cuda_status(code, "memory of the peer for W"));
  DeviceMemory held(memory);
  const cudaError_t opened = cudaDeviceEnablePeerAccess(peer, 0);
  if (opened != cudaErrorPeerAccessAlreadyEnabled) {
    CAUSEWAY_TRY(cuda_status(opened, "peer access"));
  }
  (void)cudaGetLastError();
  return Result<DeviceMemory>(std::move(held));
}

}  // namespace

Result<DeviceMemory> device_memory(std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), what));
  return DeviceMemory(memory);
}

Result<WeightAtHome> WeightAtHome::create(Home home, std::int64_t bytes, int gpu) {
  WeightAtHome weight;
  if (home == Home::kPeer) {
    CAUSEWAY_ASSIGN(weight.peer_, peer_memory(bytes, gpu));
    return Result<WeightAtHome>(std::move(weight));
  }
  void* memory = nullptr;
  CAUSEWAY_TRY(
      cuda_status(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocMapped),
                  "mapped host memory for W"));
  weight.host_.reset(memory);
  return Result<WeightAtHome>(std::move(weight));
}

Result<double> relative_error(const void* a, const void* b, std::int64_t size, void* sums,
                              CudaStream stream) {
  CAUSEWAY_TRY(cuda_status(cudaMemsetAsync(sums, 0, 2 * sizeof(double), stream), "comparing"));
  compare<<<1024, 256, 0, stream>>>(static_cast<const __nv_bfloat16*>(a),
                                    static_cast<const __nv_bfloat16*>(b), size,
                                    static_cast<double*>(sums));
  CAUSEWAY_TRY(cuda_status(cudaGetLastError(), "comparing"));
  double both[2];
  CAUSEWAY_TRY(cuda_status(cudaMemcpyAsync(both, sums, sizeof both, cudaMemcpyDeviceToHost, stream),
                           "comparing"));
  CAUSEWAY_TRY(cuda_status(cudaStreamSynchronize(stream), "comparing"));
  return std::sqrt(both[0] / both[1]);
}

Status read_once(const void* memory, std::int64_t bytes, int processors, void* sink,
                 CudaStream stream) {
  read_all<<<static_cast<unsigned>(processors * 4), 512, 0, stream>>>(
      static_cast<const uint4*>(memory), bytes / 16, static_cast<unsigned*>(sink));
  return cuda_status(cudaGetLastError(), "reading W");
}

}  // namespace causeway::kernels::home_gemm
