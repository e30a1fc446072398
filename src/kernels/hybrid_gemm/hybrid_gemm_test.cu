// HybridGEMM on a GPU: generated shapes, splits and slices, W in HBM and in mapped host memory,
// with fresh random inputs, outputs and workspaces poisoned, paddings full of NaN; against f64
// sums.
//   hybrid_gemm_gpu_test [--cases N] [--seed S]        exit code 77: no GPU
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "kernels/hybrid_gemm/hybrid_gemm.h"
#include "kernels/hybrid_gemm/sm90_tile.cuh"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/random.cuh"

namespace causeway::kernels::hybrid_gemm {
namespace {

using testing::fill_padded;
using testing::kPoison;
using testing::must;

struct Verdict {
  unsigned long long wrong;     // elements outside the tolerance, or not written
  unsigned long long trampled;  // padding of O that was written
};

// One f64 dot product a thread; |o - exact| must be within bf16 rounding and f32 summation.
__global__ void verify(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* o,
                       int64_t x_stride, int64_t w_stride, int64_t o_stride, int64_t m, int64_t n,
                       int64_t k, Verdict* verdict) {
  const int64_t size = m * o_stride;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / o_stride;
    const int64_t column = i % o_stride;
    if (column >= n) {
      if (__bfloat16_as_ushort(o[i]) != kPoison) atomicAdd(&verdict->trampled, 1ull);
      continue;
    }
    double exact = 0;
    for (int64_t j = 0; j < k; ++j) {
      exact += static_cast<double>(__bfloat162float(x[row * x_stride + j])) *
               static_cast<double>(__bfloat162float(w[column * w_stride + j]));
    }
    const double error = fabs(static_cast<double>(__bfloat162float(o[i])) - exact);
    const bool right = error <= fabs(exact) * 0x1.02p-8 + 2e-7 * static_cast<double>(k);
    if (!right) atomicAdd(&verdict->wrong, 1ull);
  }
}

enum class Home { kDevice, kHost };

struct Case {
  Request request;
  SliceFacts slice;
  Home home = Home::kDevice;
  std::int64_t x_pad = 0, w_pad = 0, o_pad = 0;  // elements behind each row
  std::uint64_t seed = 0;
};

void describe(const Case& c, const Plan& plan) {
  std::fprintf(stderr,
               "  m %ld n %ld k %ld alpha %.3f %s cluster %d sms %d ring %ld home %s "
               "pads %ld %ld %ld; sym %d asym %d relays %d slots %d seed %lu\n",
               c.request.shape.m, c.request.shape.n, c.request.shape.k, c.request.alpha,
               plan.variant == Variant::kPlain ? "plain" : "hybrid", plan.cluster_ctas,
               c.slice.sm_count, c.slice.ring_bytes.count,
               c.home == Home::kHost ? "host" : "device", c.x_pad, c.w_pad, c.o_pad,
               plan.symmetric_ctas, plan.asymmetric_ctas, plan.relay_ctas, plan.slots, c.seed);
}

struct Buffers {
  std::uint16_t *x = nullptr, *w_device = nullptr, *w_host = nullptr;
  std::uint16_t *o = nullptr, *o_again = nullptr;
  char* workspace = nullptr;
  Verdict* verdict = nullptr;
  cudaStream_t stream = nullptr;
};

constexpr std::int64_t kElementsMax = 48 << 20;
constexpr std::int64_t kWorkspaceMax = 80 << 20;

Buffers make_buffers() {
  Buffers b;
  must(cudaMalloc(&b.x, kElementsMax * 2), "x");
  must(cudaMalloc(&b.w_device, kElementsMax * 2), "w");
  must(cudaHostAlloc(&b.w_host, kElementsMax * 2, cudaHostAllocMapped), "w on the host");
  must(cudaMalloc(&b.o, kElementsMax * 2), "o");
  must(cudaMalloc(&b.o_again, kElementsMax * 2), "o");
  must(cudaMalloc(&b.workspace, kWorkspaceMax), "workspace");
  must(cudaMalloc(&b.verdict, sizeof(Verdict)), "verdict");
  must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
  return b;
}

// Runs one case twice (the results must be equal to the bit) and returns whether it is right.
bool run_case(const Case& c, const Buffers& b) {
  const Shape s = c.request.shape;
  Operands operands;
  operands.x_stride = s.k + c.x_pad;
  operands.w_stride = s.k + c.w_pad;
  operands.o_stride = s.n + c.o_pad;
  operands.x = b.x;
  operands.w = b.w_device;
  operands.workspace = b.workspace;
  Request request = c.request;
  request.aligned = aligned(operands);
  const Result<Plan> plan = choose(request, c.slice);
  if (!plan.ok()) {
    std::fprintf(stderr, "  no plan: %s\n", plan.error().message.c_str());
    describe(c, Plan());
    return false;
  }
  if (plan->workspace.count > kWorkspaceMax) return true;
  fill_padded<<<264, 256, 0, b.stream>>>(b.x, s.m, s.k, operands.x_stride, c.seed);
  fill_padded<<<264, 256, 0, b.stream>>>(b.w_device, s.n, s.k, operands.w_stride, ~c.seed);
  if (c.home == Home::kHost) {
    must(cudaMemcpyAsync(b.w_host, b.w_device, s.n * operands.w_stride * 2, cudaMemcpyDeviceToHost,
                         b.stream),
         "copy");
    operands.w = b.w_host;
  }
  must(cudaMemsetAsync(b.verdict, 0, sizeof(Verdict), b.stream), "verdict");
  for (std::uint16_t* o : {b.o, b.o_again}) {
    must(cudaMemsetAsync(b.workspace, 0xFF, plan->workspace.count, b.stream), "poison");
    must(cudaMemsetAsync(o, 0xFF, s.m * operands.o_stride * 2, b.stream), "poison");
    operands.o = o;
    const Status status = launch(*plan, operands, b.stream);
    if (!status.ok()) {
      std::fprintf(stderr, "  %s\n", status.error().message.c_str());
      describe(c, *plan);
      return false;
    }
  }
  verify<<<1056, 128, 0, b.stream>>>(
      reinterpret_cast<__nv_bfloat16*>(b.x), reinterpret_cast<__nv_bfloat16*>(b.w_device),
      reinterpret_cast<__nv_bfloat16*>(b.o), operands.x_stride, operands.w_stride,
      operands.o_stride, s.m, s.n, s.k, b.verdict);
  Verdict verdict = {};
  std::vector<std::uint16_t> first(s.m * operands.o_stride), second(first.size());
  must(cudaMemcpyAsync(&verdict, b.verdict, sizeof verdict, cudaMemcpyDeviceToHost, b.stream), "v");
  must(cudaMemcpyAsync(first.data(), b.o, first.size() * 2, cudaMemcpyDeviceToHost, b.stream), "o");
  must(cudaMemcpyAsync(second.data(), b.o_again, second.size() * 2, cudaMemcpyDeviceToHost,
                       b.stream),
       "o");
  const cudaError_t code = cudaStreamSynchronize(b.stream);
  const bool same = std::memcmp(first.data(), second.data(), first.size() * 2) == 0;
  if (code == cudaSuccess && verdict.wrong == 0 && verdict.trampled == 0 && same) return true;
  std::fprintf(stderr, "WRONG: %s, %llu wrong, %llu trampled, %s\n", cudaGetErrorString(code),
               verdict.wrong, verdict.trampled, same ? "repeatable" : "differs between runs");
  describe(c, *plan);
  must(code, "kernel");
  return false;
}

std::int64_t pick(Random& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random.below(static_cast<std::int64_t>(values.size()))];
}

Case generate(Random& random, const std::array<int, 4>& clusters) {
  Case c;
  c.slice.clusters = clusters;
  Shape& s = c.request.shape;
  s.m = random.chance(0.3)
            ? random.between(1, 700)
            : pick(random, {1,   2,   3,   7,   8,   13,  31,  63,   64,   65,   127, 128,
                            129, 255, 256, 257, 509, 512, 513, 1021, 1025, 2049, 4099});
  s.n = random.chance(0.5) ? random.between(1, 96) * 8
                           : pick(random, {1, 7, 127, 128, 129, 255, 256, 1023, 1024, 2048, 3000});
  s.k = random.chance(0.5)
            ? random.between(1, 96) * 8
            : pick(random, {8, 16, 56, 64, 72, 504, 512, 520, 1024, 4096, 5120, 9000});
  if (random.chance(0.05)) s.k = random.between(1, 300);
  while (s.m * s.n * s.k > 6'000'000'000) s.m = (s.m + 1) / 2;
  c.request.alpha = random.chance(0.3) ? random.uniform()
                                       : static_cast<double>(pick(random, {0, 0, 1, 2, 4})) / 4;
  c.request.cluster_ctas = static_cast<int>(pick(random, {0, 0, 1, 2, 4, 8}));
  c.slice.sm_count = static_cast<int>(pick(random, {132, 132, 16, 32, 56, 120, 17}));
  c.slice.ring_bytes = Bytes(pick(random, {32 << 20, 32 << 20, 8 << 20, 5 << 20}));
  c.home = random.chance(0.3) ? Home::kHost : Home::kDevice;
  if (random.chance(0.3)) c.x_pad = 8 * random.between(0, 9);
  if (random.chance(0.3)) c.w_pad = 8 * random.between(0, 9);
  if (random.chance(0.3)) c.o_pad = random.between(0, 70);
  c.seed = random.bits();
  return c;
}

int run(int cases, std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu, %d cases\n", seed, cases);
  std::fflush(stdout);
  const Buffers buffers = make_buffers();
  const auto clusters = must(clusters_that_fit(buffers.stream));
  std::printf("clusters of 1, 2, 4, 8 that fit: %d %d %d %d\n", clusters[0], clusters[1],
              clusters[2], clusters[3]);
  std::fflush(stdout);
  Random random(seed);
  int wrong = 0;
  for (int i = 0; i < cases && wrong < 10; ++i) {
    if (!run_case(generate(random, clusters), buffers)) {
      std::fprintf(stderr, "  (case %d)\n", i);
      ++wrong;
    }
  }
  std::printf("%s: %d wrong\n", wrong == 0 ? "PASSED" : "FAILED", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::kernels::hybrid_gemm

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const int cases = arguments.number("--cases", 300);
  arguments.finish();
  return causeway::kernels::hybrid_gemm::run(cases, seed);
}
