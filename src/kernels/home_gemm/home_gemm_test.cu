// Products at home on a GPU, by every way that can do them: generated shapes, epilogues and scratch
// sizes, W in mapped host memory, fresh random inputs, outputs and scratch poisoned, against f64
// sums.
//   home_gemm_gpu_test [--cases N] [--seed S]        exit code 77: no GPU
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "kernels/home_gemm/home_gemm_cuda.h"
#include "kernels/home_gemm/profile.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/random.cuh"

namespace causeway::kernels::home_gemm {
namespace {

using gemm::CudaOut;
using gemm::CudaRequest;
using testing::fill_padded;
using testing::kPoison;
using testing::must;

struct Verdict {
  unsigned long long wrong, trampled;
};

// What the reference reads; the padding of out must stay as it was.
struct Case {
  CudaRequest request;
  gemm::CudaOperands operands;  // w: a copy in HBM
};

__device__ double dot(const Case& c, int64_t row, int64_t weight_row) {
  const auto* x = static_cast<const __nv_bfloat16*>(c.operands.x) + row * c.operands.x_stride;
  const auto* w =
      static_cast<const __nv_bfloat16*>(c.operands.w) + weight_row * c.operands.w_stride;
  double sum = 0;
  for (int64_t j = 0; j < c.request.k; ++j) {
    sum +=
        static_cast<double>(__bfloat162float(x[j])) * static_cast<double>(__bfloat162float(w[j]));
  }
  if (c.request.bias) {
    sum += __bfloat162float(static_cast<const __nv_bfloat16*>(c.operands.bias)[weight_row]);
  }
  return sum;
}

// The exact value, and how far bf16 results between product and sum may be from it.
__device__ double exact(const Case& c, int64_t row, int64_t column, const __nv_bfloat16* residual,
                        double* allowed) {
  const double slack = 1e-6 * static_cast<double>(c.request.k) + 1e-3;
  const double first = dot(c, row, column);
  if (c.request.silu_mul) {
    const double up = dot(c, row, c.request.n + column);
    const double silu = first / (1 + exp(-first));
    *allowed = 0x1p-6 * (fabs(first) + 1) * (fabs(up) + 1) + slack;
    return silu * up;
  }
  double value = first;
  if (c.request.residual) {
    value += __bfloat162float(residual[row * c.operands.residual_stride + column]);
  }
  *allowed = 0x1p-7 * (fabs(first) + fabs(value)) + slack;
  return value;
}

__global__ void verify(const Case c, const __nv_bfloat16* residual, Verdict* verdict) {
  const int64_t size = c.request.m * c.operands.out_stride;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / c.operands.out_stride, column = i % c.operands.out_stride;
    const bool f32 = c.request.out == CudaOut::kF32;
    if (column >= c.request.n) {
      const bool kept = f32 ? static_cast<const uint32_t*>(c.operands.out)[i] == 0xFFFFFFFFu
                            : static_cast<const uint16_t*>(c.operands.out)[i] == kPoison;
      if (!kept) atomicAdd(&verdict->trampled, 1ull);
      continue;
    }
    double allowed = 0;
    const double wanted = exact(c, row, column, residual, &allowed);
    const double got = f32 ? static_cast<const float*>(c.operands.out)[i]
                           : __bfloat162float(static_cast<const __nv_bfloat16*>(c.operands.out)[i]);
    if (!(fabs(got - wanted) <= allowed)) atomicAdd(&verdict->wrong, 1ull);
  }
}

constexpr std::int64_t kElementsMax = 24 << 20;  // of w; of x and out each
constexpr std::int64_t kScratchMax = std::int64_t{64} << 20;

struct Buffers {
  std::uint16_t *x, *w, *w_home, *residual, *bias;
  char *out, *scratch, *workspace;
  Verdict* verdict;
  cudaStream_t stream;
};

template <typename T>
T* device(std::int64_t bytes) {
  void* memory = nullptr;
  must(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "memory");
  return static_cast<T*>(memory);
}

Buffers make_buffers() {
  Buffers b = {};
  b.x = device<std::uint16_t>(kElementsMax * 2);
  b.w = device<std::uint16_t>(kElementsMax * 2);
  b.residual = device<std::uint16_t>(kElementsMax * 2);
  b.bias = device<std::uint16_t>(1 << 20);
  b.out = device<char>(kElementsMax * 4);
  b.scratch = device<char>(kScratchMax);
  b.workspace = device<char>(std::int64_t{256} << 20);
  b.verdict = device<Verdict>(sizeof(Verdict));
  must(cudaHostAlloc(&b.w_home, kElementsMax * 2, cudaHostAllocMapped), "w at home");
  must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
  return b;
}

CudaRequest generate(Random& random) {
  CudaRequest r;
  r.m = random.chance(0.5) ? random.between(1, 40) : random.between(1, 1'500);
  r.n = random.between(1, 400) * 8;
  r.k = random.chance(0.8) ? random.between(1, 48) * 64 : random.between(1, 300) * 8;
  r.silu_mul = random.chance(0.25);
  r.bias = random.chance(0.25);
  r.residual = !r.silu_mul && random.chance(0.3);
  if (!r.silu_mul && !r.residual && random.chance(0.2)) r.out = CudaOut::kF32;
  while (r.m * r.n * r.k > 3'000'000'000) r.m = (r.m + 1) / 2;
  return r;
}

gemm::CudaOperands fill(CudaRequest& r, Random& random, const Buffers& b) {
  gemm::CudaOperands o;
  o.x_stride = r.k + (random.chance(0.3) ? 8 * random.between(0, 5) : 0);
  o.w_stride = r.k;
  o.out_stride = r.n + (random.chance(0.3) ? 8 * random.between(0, 5) : 0);
  o.residual_stride = o.out_stride;
  o.x = b.x;
  o.w = b.w_home;
  o.out = b.out;
  if (r.bias) o.bias = b.bias;
  if (r.residual) o.residual = b.residual;
  const std::int64_t rows = (r.silu_mul ? 2 : 1) * r.n;
  const auto seed = random.bits();
  fill_padded<<<264, 256, 0, b.stream>>>(b.x, r.m, r.k, o.x_stride, seed);
  fill_padded<<<264, 256, 0, b.stream>>>(b.w, rows, r.k, r.k, ~seed);
  fill_padded<<<264, 256, 0, b.stream>>>(b.residual, r.m, r.n, o.residual_stride, seed + 1);
  fill_padded<<<16, 256, 0, b.stream>>>(b.bias, 1, rows, rows, seed + 2);
  must(cudaMemcpyAsync(b.w_home, b.w, static_cast<std::size_t>(rows * r.k * 2),
                       cudaMemcpyDeviceToHost, b.stream),
       "w home");
  r.aligned = gemm::aligned(o);
  r.paired = gemm::paired(o);
  r.boxed = gemm::boxed(o, r.out);
  return o;
}

// Twice in a row, so that the second run's first copies meet the first run's last products.
bool run_way(const Plan& plan, const gemm::CudaOperands& operands, HomeGemm& runner,
             const Buffers& b) {
  const CudaRequest& r = plan.request;
  must(cudaMemsetAsync(b.scratch, 0xFF, kScratchMax, b.stream), "poison");
  must(cudaMemsetAsync(b.verdict, 0, sizeof(Verdict), b.stream), "verdict");
  const std::int64_t bytes = r.m * operands.out_stride * (r.out == CudaOut::kF32 ? 4 : 2);
  for (int i = 0; i < 2; ++i) {
    must(cudaMemsetAsync(b.out, 0xFF, static_cast<std::size_t>(bytes), b.stream), "poison");
    must(runner.run(plan, operands, {.workspace = b.workspace, .scratch = b.scratch}, b.stream));
  }
  Case c = {r, operands};
  c.operands.w = b.w;
  verify<<<1056, 128, 0, b.stream>>>(c, reinterpret_cast<const __nv_bfloat16*>(b.residual),
                                     b.verdict);
  Verdict verdict = {};
  must(cudaMemcpyAsync(&verdict, b.verdict, sizeof verdict, cudaMemcpyDeviceToHost, b.stream), "v");
  must(cudaStreamSynchronize(b.stream), "product at home");
  if (verdict.wrong == 0 && verdict.trampled == 0) return true;
  std::fprintf(stderr,
               "WRONG: %s, m %ld n %ld k %ld out %s%s%s%s, %zu pieces, scratch %ld: %llu wrong, "
               "%llu trampled\n",
               std::string(name_of(plan.way)).c_str(), r.m, r.n, r.k,
               r.out == CudaOut::kF32 ? "f32" : "bf16", r.bias ? " bias" : "",
               r.residual ? " residual" : "", r.silu_mul ? " silu_mul" : "", plan.chunks.size(),
               plan.scratch.count, verdict.wrong, verdict.trampled);
  return false;
}

int run(int cases, std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu, %d cases\n", seed, cases);
  std::fflush(stdout);
  const Buffers b = make_buffers();
  auto products = must(gemm::CudaGemm::create());
  must(gemm::CudaGemm::prepare(b.workspace, b.stream));
  auto runner = must(HomeGemm::create(products));
  Facts facts;
  facts.copies = true;
  facts.clusters = must(hybrid_gemm::clusters_that_fit(b.stream));
  facts.sm_count = facts.clusters[0];
  Random random(seed);
  int wrong = 0, run = 0;
  for (int i = 0; i < cases && wrong < 10; ++i) {
    CudaRequest request = generate(random);
    const auto operands = fill(request, random, b);
    facts.scratch = random.chance(0.5) ? Bytes(kScratchMax) : mib(random.between(1, 12));
    for (const Way way : kWays) {
      const auto plan = plan_for(way, request, facts, Profile::built_in(facts.home));
      if (!plan.ok()) continue;
      ++run;
      if (!run_way(*plan, operands, runner, b)) ++wrong;
    }
  }
  std::printf("%s: %d cases, %d products, %d wrong\n", wrong == 0 ? "PASSED" : "FAILED", cases, run,
              wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::kernels::home_gemm

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20261125});
  const int cases = arguments.number("--cases", 150);
  arguments.finish();
  return causeway::kernels::home_gemm::run(cases, seed);
}
