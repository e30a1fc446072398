#include "bench/kernels/cuda_limits.h"

#include "bench/kernels/cuda_timer.h"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/gemm/gemm_cuda.h"

namespace causeway::kernels::bench {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 8;
constexpr std::int64_t kMatmul = 8192;
constexpr int kWarmRuns = 3;  // power and clocks settle
constexpr int kRuns = 8;

__device__ __forceinline__ uint4 read_once(const uint4* at) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at));
  return value;
}

// Every block takes neighbouring pieces of kThreads × kUnroll values in turn with the others.
__global__ void __launch_bounds__(kThreads)
    read_all(const uint4* memory, std::int64_t pieces, unsigned* never) {
  wait_for_predecessor();
  unsigned mixed = 0;
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const uint4* begin = memory + piece * (kThreads * kUnroll) + threadIdx.x;
    uint4 values[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) values[i] = read_once(begin + i * kThreads);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      mixed ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
    }
  }
  // Keeps the reads; with random data it is as good as never true.
  if (mixed == 0x9E3779B9u && never != nullptr) *never = mixed;
}

__global__ void fill(unsigned* memory, std::int64_t words, std::uint64_t seed, float scale) {
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
    std::uint64_t bits = (static_cast<std::uint64_t>(i) + seed) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    const float low = (static_cast<int>(bits & 0xFFFF) - 32768) * (scale / 32768);
    const float high = (static_cast<int>((bits >> 32) & 0xFFFF) - 32768) * (scale / 32768);
    memory[i] = pack(low, high);
  }
}

// Where the parts of the product lie in the caller's memory.
struct Matmul {
  static constexpr std::int64_t kMatrix = 2 * kMatmul * kMatmul;
  explicit Matmul(void* memory) : base(static_cast<std::byte*>(memory)) {}
  void* x() const { return base; }
  void* w() const { return base + kMatrix; }
  void* out() const { return base + 2 * kMatrix; }
  void* workspace() const { return base + 3 * kMatrix; }
  std::byte* base;
};

gemm::CudaRequest matmul_request() { return {.m = kMatmul, .n = kMatmul, .k = kMatmul}; }

}  // namespace

Result<double> cuda_read_bandwidth(const void* memory, Bytes bytes, int times, CudaStream stream) {
  constexpr std::int64_t kPiece = 16 * kThreads * kUnroll;
  const std::int64_t pieces = bytes.count / kPiece;
  if (pieces < 1 || times < 1) return invalid_argument("too little memory to measure reading");
  int device = 0, sms = 0;
  (void)cudaGetDevice(&device);
  (void)cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(4 * sms)), .block = dim3(kThreads)};
  const auto read = [&]() -> Status {
    for (int i = 0; i < times; ++i) {
      CAUSEWAY_TRY(launch("a read of all memory", stream, shape, read_all,
                          static_cast<const uint4*>(memory), pieces,
                          static_cast<unsigned*>(nullptr)));
    }
    return {};
  };
  CAUSEWAY_ASSIGN(const Nanos took, time_on_gpu(read, stream));
  return static_cast<double>(pieces * kPiece * times) / to_seconds(took);
}

Bytes cuda_matmul_bytes() {
  const auto plan = gemm::plan_for(gemm::CudaPath::kLibrary, matmul_request(), {});
  return Bytes(3 * Matmul::kMatrix) + (plan.ok() ? plan->workspace : Bytes(0));
}

Result<double> cuda_matmul_peak(void* memory, CudaStream stream) {
  const Matmul parts(memory);
  CAUSEWAY_TRY(cuda_fill_random_bf16(memory, Bytes(2 * Matmul::kMatrix), 11, 1.0f, stream));
  CAUSEWAY_TRY(gemm::CudaGemm::prepare(parts.workspace(), stream));
  CAUSEWAY_ASSIGN(auto library, gemm::CudaGemm::create());
  CAUSEWAY_ASSIGN(const auto plan, gemm::plan_for(gemm::CudaPath::kLibrary, matmul_request(), {}));
  const gemm::CudaOperands operands{.x = parts.x(),
                                    .w = parts.w(),
                                    .out = parts.out(),
                                    .x_stride = kMatmul,
                                    .w_stride = kMatmul,
                                    .out_stride = kMatmul};
  const auto multiply = [&](int times) -> Status {
    for (int i = 0; i < times; ++i) {
      CAUSEWAY_TRY(library.run(plan, operands, parts.workspace(), stream, gemm::Overlap::kNo));
    }
    return {};
  };
  CAUSEWAY_TRY(multiply(kWarmRuns));
  CAUSEWAY_ASSIGN(const Nanos took, time_on_gpu([&] { return multiply(kRuns); }, stream));
  const double operations = 2.0 * kMatmul * kMatmul * kMatmul * kRuns;
  return operations / to_seconds(took);
}

Status cuda_fill_random_bf16(void* memory, Bytes bytes, std::uint64_t seed, float scale,
                             CudaStream stream) {
  const LaunchShape shape{.grid = dim3(2048), .block = dim3(512)};
  return launch("filling memory", stream, shape, fill, static_cast<unsigned*>(memory),
                bytes.count / 4, seed, scale);
}

}  // namespace causeway::kernels::bench
