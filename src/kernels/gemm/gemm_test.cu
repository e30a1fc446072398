// The resident-weight product on a GPU: generated shapes, strides and epilogues on every path, with
// fresh random inputs, outputs and workspaces poisoned, paddings full of NaN; against f64 sums.
// Every case is run twice, launched with and without overlap, and must repeat to the bit; with
// overlap x and the residual are poison until just before they must be there (testing/late.cuh).
// Within each own kernel a row must not depend on the number of rows.
//   gemm_gpu_test [--cases N] [--seed S]        exit code 77: no GPU
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/testing/late.cuh"
#include "kernels/testing/partly.cuh"
#include "kernels/testing/random.cuh"

namespace causeway::kernels::gemm {
namespace {

using testing::fill_padded;
using testing::kPoison;
using testing::Late;
using testing::must;

struct Verdict {
  unsigned long long wrong;      // elements outside the tolerance, or not written
  unsigned long long trampled;   // padding of out that was written
  unsigned long long error_max;  // bits of the largest error in units of the tolerance
};

struct Check {
  CudaOperands operands;
  const __nv_bfloat16* residual;  // as it was before the run
  int64_t m, n, k;
  bool bias, silu_mul, norm, out_f32;
  int rounded_sums;  // by the library at most: the product, and what the first addition made of it
};

__device__ double wide(__nv_bfloat16 value) { return static_cast<double>(__bfloat162float(value)); }

// `gains`: null, or what x is multiplied with, rounded to bf16.
__device__ double dot(const __nv_bfloat16* x, const __nv_bfloat16* gains, const __nv_bfloat16* w,
                      int64_t k) {
  double sum = 0;
  for (int64_t j = 0; j < k; ++j) {
    const __nv_bfloat16 factor =
        gains == nullptr ? x[j]
                         : __float2bfloat16_rn(__bfloat162float(x[j]) * __bfloat162float(gains[j]));
    sum += wide(factor) * wide(w[j]);
  }
  return sum;
}

// 1 / rms.
__device__ double norm_of(const Check& c, const __nv_bfloat16* x) {
  double squares = 0;
  for (int64_t j = 0; j < c.k; ++j) squares += wide(x[j]) * wide(x[j]);
  return 1 / sqrt(squares / static_cast<double>(c.k) + static_cast<double>(c.operands.epsilon));
}

// One f64 dot product (silu_mul: two) a thread; out must be within rounding and f32 summation.
__global__ void verify(Check c, Verdict* verdict) {
  const auto* x = static_cast<const __nv_bfloat16*>(c.operands.x);
  const auto* w = static_cast<const __nv_bfloat16*>(c.operands.w);
  const auto* bias = static_cast<const __nv_bfloat16*>(c.operands.bias);
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < c.m * c.operands.out_stride;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = i / c.operands.out_stride, column = i % c.operands.out_stride;
    const auto* bf16 = static_cast<const std::uint16_t*>(c.operands.out);
    const auto* f32 = static_cast<const float*>(c.operands.out);
    if (column >= c.n) {
      const bool kept = c.out_f32 ? __float_as_uint(f32[i]) == 0xFFFFFFFFu : bf16[i] == kPoison;
      if (!kept) atomicAdd(&verdict->trampled, 1ull);
      continue;
    }
    const auto* line = x + row * c.operands.x_stride;
    const auto* gains = c.norm ? static_cast<const __nv_bfloat16*>(c.operands.gains) : nullptr;
    const double factor = c.norm ? norm_of(c, line) : 1;
    double exact = factor * dot(line, gains, w + column * c.operands.w_stride, c.k);
    if (c.bias) exact += static_cast<double>(__bfloat162float(bias[column]));
    double slack = (3e-7 * static_cast<double>(c.k) + 1e-6) * factor;
    if (c.norm) slack += 2e-6 * fabs(exact);
    if (c.silu_mul) {
      double up = factor * dot(line, gains, w + (c.n + column) * c.operands.w_stride, c.k);
      if (c.bias) up += static_cast<double>(__bfloat162float(bias[c.n + column]));
      slack = (slack + fabs(exact) * 0x1p-8 + fabs(up) * 0x1p-8) * (1 + fabs(exact) + fabs(up));
      exact = exact / (1 + exp(-exact)) * up;
    }
    if (c.rounded_sums > 0) slack += (fabs(exact) + 1) * 0x1.8p-8;  // |bias| < 1
    const double added = fabs(exact);
    if (c.residual != nullptr) {
      exact += static_cast<double>(
          __bfloat162float(c.residual[row * c.operands.residual_stride + column]));
    }
    // In either order.
    if (c.rounded_sums > 1) slack += (fmax(added, fabs(exact)) + 1) * 0x1.04p-8;
    const double value = c.out_f32
                             ? static_cast<double>(f32[i])
                             : static_cast<double>(__bfloat162float(__ushort_as_bfloat16(bf16[i])));
    const double tolerance = slack + fabs(exact) * (c.out_f32 ? 1e-6 : 0x1.04p-8);
    const double error = fabs(value - exact) / tolerance;
    atomicMax(&verdict->error_max, static_cast<unsigned long long>(__double_as_longlong(error)));
    if (!(error <= 1)) atomicAdd(&verdict->wrong, 1ull);
  }
}

struct Case {
  CudaRequest request;
  CudaFacts facts;
  std::int64_t x_pad = 0, w_pad = 0, out_pad = 0, residual_pad = 0;
  bool in_place = false;  // the residual is out itself
  std::int64_t out_offset = 0;
  std::uint64_t seed = 0;
};

const char* name_of(CudaPath path) {
  return path == CudaPath::kRows      ? "rows"
         : path == CudaPath::kSplit   ? "split"
         : path == CudaPath::kLibrary ? "library"
                                      : "plain";
}

void describe(const Case& c, const CudaPlan& plan) {
  const CudaRequest& r = c.request;
  std::fprintf(stderr,
               "  m %ld n %ld k %ld parts %d %s%s%s%s%s%s path %s batch %d ctas %d "
               "pads %ld %ld %ld %ld offset %ld seed %lu\n",
               r.m, r.n, r.k, r.parts, r.out == CudaOut::kF32 ? "f32" : "bf16",
               r.bias ? " bias" : "", r.residual ? " residual" : "", c.in_place ? " in place" : "",
               r.silu_mul ? " silu_mul" : "", r.norm ? " norm" : "", name_of(plan.path), plan.batch,
               plan.ctas, c.x_pad, c.w_pad, c.out_pad, c.residual_pad, c.out_offset, c.seed);
}

// So few that shares of small weights have more steps than a ring has stages.
constexpr int kFewSms = 8;
constexpr std::int64_t kElementsMax = 40 << 20;
constexpr std::int64_t kWorkspaceMax = 160 << 20;
constexpr std::size_t kBehind = 1 << 20;  // bytes behind a workspace that nobody may write

struct Buffers {
  std::uint16_t *x = nullptr, *w = nullptr, *bias = nullptr, *residual = nullptr;
  std::uint16_t* gains = nullptr;
  char* out[3] = {};
  char* workspace = nullptr;
  Verdict* verdict = nullptr;
  cudaStream_t stream = nullptr;
  std::unique_ptr<Late> late;
};

Buffers make_buffers() {
  Buffers b;
  for (std::uint16_t** p : {&b.x, &b.w, &b.bias, &b.residual, &b.gains}) {
    must(cudaMalloc(p, kElementsMax * 2), "inputs");
  }
  for (char*& p : b.out) must(cudaMalloc(&p, kElementsMax * 4), "out");
  must(cudaMalloc(&b.workspace, kWorkspaceMax + kBehind), "workspace");
  must(cudaMalloc(&b.verdict, sizeof(Verdict)), "verdict");
  must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
  b.late = std::make_unique<Late>();
  return b;
}

Verdict fetch_verdict(const Buffers& b) {
  Verdict verdict = {};
  must(cudaMemcpyAsync(&verdict, b.verdict, sizeof verdict, cudaMemcpyDeviceToHost, b.stream), "v");
  must(cudaStreamSynchronize(b.stream), "verdict");
  return verdict;
}

void clear_verdict(const Buffers& b) {
  must(cudaMemsetAsync(b.verdict, 0, sizeof(Verdict), b.stream), "verdict");
}

void poison_behind(const Buffers& b, const CudaPlan& plan) {
  must(cudaMemsetAsync(b.workspace + plan.workspace.count, 0xFF, kBehind, b.stream), "poison");
}

// Still poison.
bool untouched(const Buffers& b, const char* memory, std::size_t bytes) {
  std::vector<char> now(bytes);
  must(cudaMemcpyAsync(now.data(), memory, bytes, cudaMemcpyDeviceToHost, b.stream), "poison");
  must(cudaStreamSynchronize(b.stream), "kernel");
  return now == std::vector<char>(bytes, '\xFF');
}

bool kept_behind(const Buffers& b, const CudaPlan& plan) {
  return untouched(b, b.workspace + plan.workspace.count, kBehind);
}

struct Run {
  const Case& c;
  const Buffers& b;
  CudaPlan plan;
  CudaOperands operands;

  std::int64_t width() const { return c.request.out == CudaOut::kF32 ? 4 : 2; }
  std::int64_t rows_of_w() const { return c.request.silu_mul ? 2 * c.request.n : c.request.n; }
  std::size_t out_bytes() const {
    return static_cast<std::size_t>(c.request.parts * c.request.m * operands.out_stride * width());
  }
  // Rows behind the last one that a kernel's batch has room for: nobody may write them.
  std::size_t below_bytes() const {
    return static_cast<std::size_t>(kSplitMax * operands.out_stride * width());
  }
  bool kept_below(const char* out) const {
    return untouched(b, out + c.out_offset * width() + out_bytes(), below_bytes());
  }

  void fill_inputs() {
    const CudaRequest& r = c.request;
    operands.x = b.x;
    operands.w = b.w;
    operands.bias = b.bias;
    operands.gains = r.norm ? b.gains : nullptr;
    operands.epsilon = 1e-5f;
    operands.x_stride = r.k + c.x_pad;
    operands.w_stride = r.k + c.w_pad;
    operands.out_stride = r.n + c.out_pad;
    operands.residual_stride = c.in_place ? operands.out_stride : r.n + c.residual_pad;
    const auto matrix = [&](std::uint16_t* p, std::int64_t rows, std::int64_t columns,
                            std::int64_t stride, std::uint64_t seed) {
      fill_padded<<<264, 256, 0, b.stream>>>(p, rows, columns, stride, seed);
    };
    matrix(b.x, r.m, r.k, operands.x_stride, c.seed);
    matrix(b.w, rows_of_w(), r.k, operands.w_stride, ~c.seed);
    matrix(b.bias, 1, rows_of_w(), rows_of_w(), c.seed + 1);
    matrix(b.gains, 1, r.k, r.k, c.seed + 3);
    matrix(b.residual, r.m, r.n, operands.residual_stride, c.seed + 2);
  }

  // Poison wherever the product writes.
  void lay_out(const CudaPlan& with, char* out) {
    operands.out = out + c.out_offset * width();
    must(cudaMemsetAsync(b.workspace + kFlagBytes.count, 0xFF,
                         static_cast<std::size_t>((with.workspace - kFlagBytes).count), b.stream),
         "poison");
    must(cudaMemsetAsync(out, 0xFF, out_bytes() + below_bytes() + 64, b.stream), "poison");
    operands.residual = b.residual;
    if (c.in_place) {
      must(cudaMemcpyAsync(operands.out, b.residual, out_bytes(), cudaMemcpyDeviceToDevice,
                           b.stream),
           "residual");
      operands.residual = operands.out;
    }
  }

  // What a kernel in front may write: not weights, nor bias and gains.
  void hold_back(std::int64_t m) {
    b.late->clear();
    b.late->add(b.x, m * operands.x_stride * 2, testing::kNan);
    if (c.request.residual) {
      b.late->add(const_cast<void*>(operands.residual), m * operands.residual_stride * 2,
                  testing::kNan);
    }
    b.late->poison(b.stream);
  }

  Status launch(CudaGemm& gemm, const CudaPlan& with, char* out, Overlap overlap) {
    if (overlap == Overlap::kNo) {
      lay_out(with, out);
      return gemm.run(with, operands, b.workspace, b.stream, overlap);
    }
    std::optional<Error> failed;
    const auto enqueue = [&] {
      const Status status = gemm.run(with, operands, b.workspace, b.stream, overlap);
      if (!status.ok()) failed = status.error();
    };
    const bool shown = b.late->repeat([&] {
      lay_out(with, out);
      hold_back(with.request.m);
      b.late->write(enqueue, b.stream, "product");
    });
    if (failed) return *failed;
    if (shown) return {};
    return Error{ErrorCode::kDeadlineExceeded, "inputs came before all was enqueued, each time"};
  }

  std::vector<char> fetch(const char* out) const {
    std::vector<char> bytes(out_bytes());
    must(cudaMemcpyAsync(bytes.data(), out + c.out_offset * width(), bytes.size(),
                         cudaMemcpyDeviceToHost, b.stream),
         "fetch");
    must(cudaStreamSynchronize(b.stream), "kernel");
    return bytes;
  }
};

// The first row alone must come out as it did among the others.
bool same_alone(CudaGemm& gemm, Run& run, const std::vector<char>& all) {
  CudaRequest alone = run.c.request;
  alone.m = 1;
  CudaPlan same = run.plan;  // kSplit: by the same kernel
  same.request.m = 1;
  const Result<CudaPlan> plan = run.plan.path == CudaPath::kSplit
                                    ? Result<CudaPlan>(same)
                                    : plan_for(run.plan.path, alone, run.c.facts);
  if (!plan.ok() || !run.launch(gemm, *plan, run.b.out[2], Overlap::kYes).ok()) return false;
  const std::vector<char> row = run.fetch(run.b.out[2]);
  return std::memcmp(row.data(), all.data(),
                     static_cast<std::size_t>(run.c.request.n * run.width())) == 0;
}

bool flags_zero(const Buffers& b) {
  std::vector<char> flags(to_size(kFlagBytes));
  must(cudaMemcpyAsync(flags.data(), b.workspace, flags.size(), cudaMemcpyDeviceToHost, b.stream),
       "flags");
  must(cudaStreamSynchronize(b.stream), "flags");
  for (const char c : flags) {
    if (c != 0) return false;
  }
  return true;
}

// Whether a tile, or two next to each other, are shared along k by CTAs or pairs that do not halve
// it.
bool shares_tiles(const CudaPlan& plan) {
  if (plan.path != CudaPath::kSplit || plan.pairs == CudaPairs::kHalves) return false;
  return plan.tiles % (plan.pairs == CudaPairs::kInputs ? plan.ctas / 2 : plan.ctas) != 0;
}

struct Totals {
  int cases[4] = {};     // by path
  int shared = 0;        // of kSplit: those whose CTAs share tiles
  int halves = 0;        // of kSplit: those in pairs that halve k
  int inputs = 0;        // and that read x together
  double error_max = 0;  // in units of the tolerance

  void count(const CudaPlan& plan, double error) {
    ++cases[static_cast<int>(plan.path)];
    if (plan.pairs == CudaPairs::kHalves) ++halves;
    if (plan.pairs == CudaPairs::kInputs) ++inputs;
    if (shares_tiles(plan)) ++shared;
    error_max = std::max(error_max, error);
  }
};

// Each part against its share of k.
void verify_parts(Check check, int parts, const Buffers& b) {
  check.k /= parts;
  for (int part = 0; part < parts; ++part) {
    verify<<<1056, 128, 0, b.stream>>>(check, b.verdict);
    const auto moved = [](const void* base, std::int64_t bytes) {
      return static_cast<const char*>(base) + bytes;
    };
    check.operands.x = moved(check.operands.x, check.k * 2);
    check.operands.w = moved(check.operands.w, check.k * 2);
    check.operands.out = static_cast<char*>(check.operands.out) +
                         check.m * check.operands.out_stride * (check.out_f32 ? 4 : 2);
  }
}

// Parts once more, by products one after the other, as where cuBLASLt offers no batch.
bool right_one_by_one(Run& run, CublasLt& library, Check check) {
  const Buffers& b = run.b;
  const auto offered = library.algorithms(run.plan, run.operands);
  if (!offered.ok() || *offered != 0) return false;  // it would be a batch
  run.lay_out(run.plan, b.out[2]);
  if (!library.run(run.plan, run.operands, b.workspace, b.stream).ok()) return false;
  check.operands.out = run.operands.out;
  clear_verdict(b);
  verify_parts(check, run.c.request.parts, b);
  const Verdict verdict = fetch_verdict(b);
  return verdict.wrong == 0 && verdict.trampled == 0;
}

// The library's ways: of CudaGemm, and of its own where batches are refused.
struct Ways {
  CudaGemm gemm;
  CublasLt no_batches;
};

// A path that cannot do the product is right not to.
bool run_case(const Case& c, CudaPath path, const Buffers& b, Ways& ways, Totals& totals) {
  Run run = {c, b, {}, {}};
  run.fill_inputs();
  run.operands.out = b.out[0] + c.out_offset * run.width();
  run.operands.residual = c.in_place ? run.operands.out : b.residual;
  CudaRequest request = c.request;
  request.aligned = aligned(run.operands);
  request.paired = paired(run.operands);
  request.boxed = boxed(run.operands, request.out);
  const auto plan = plan_for(path, request, c.facts);
  if (!plan.ok() && plan.error().code == ErrorCode::kUnsupported) return true;
  if (!plan.ok()) {
    std::fprintf(stderr, "  no plan: %s\n", plan.error().message.c_str());
    return false;
  }
  if (plan->workspace.count > kWorkspaceMax) return true;
  run.plan = *plan;
  poison_behind(b, *plan);
  for (int i = 0; i < 2; ++i) {
    const Status status =
        run.launch(ways.gemm, *plan, b.out[i], i == 0 ? Overlap::kNo : Overlap::kYes);
    if (!status.ok()) {
      std::fprintf(stderr, "  %s\n", status.error().message.c_str());
      describe(c, *plan);
      return false;
    }
  }
  if (const cudaError_t code = cudaStreamSynchronize(b.stream); code != cudaSuccess) {
    describe(c, *plan);
    must(code, "kernel");
  }
  Check check = {.operands = run.operands,
                 .residual = nullptr,
                 .m = request.m,
                 .n = request.n,
                 .k = request.k,
                 .bias = request.bias,
                 .silu_mul = request.silu_mul,
                 .norm = request.norm,
                 .out_f32 = request.out == CudaOut::kF32,
                 .rounded_sums = plan->path == CudaPath::kLibrary && request.parts == 1 &&
                                         request.out == CudaOut::kBF16
                                     ? (request.bias ? 1 : 0) + (request.residual ? 1 : 0)
                                     : 0};
  if (request.residual) check.residual = reinterpret_cast<const __nv_bfloat16*>(b.residual);
  clear_verdict(b);
  verify_parts(check, request.parts, b);
  const Verdict verdict = fetch_verdict(b);
  const std::vector<char> first = run.fetch(b.out[0]), second = run.fetch(b.out[1]);
  const bool same = first == second;
  const bool inside = kept_behind(b, *plan) && run.kept_below(b.out[0]);
  const bool own = plan->path == CudaPath::kRows || plan->path == CudaPath::kSplit;
  const bool alone = !own || same_alone(ways.gemm, run, second);
  const bool one_by_one = request.parts == 1 || right_one_by_one(run, ways.no_batches, check);
  const bool zero = flags_zero(b);
  double error = 0;
  std::memcpy(&error, &verdict.error_max, sizeof error);
  totals.count(*plan, error);
  // A residual in place is trampled padding by design: the copy filled it.
  const bool trampled = verdict.trampled != 0 && !c.in_place;
  if (verdict.wrong == 0 && !trampled && same && inside && alone && one_by_one && zero) return true;
  std::fprintf(stderr, "WRONG: %llu wrong (error %.2f), %llu trampled%s%s%s%s%s\n", verdict.wrong,
               error, verdict.trampled, same ? "" : ", differs between runs",
               inside ? "" : ", written behind the workspace or below out",
               alone ? "" : ", a row depends on the others",
               one_by_one ? "" : ", parts one by one are wrong", zero ? "" : ", flags left");
  describe(c, *plan);
  return false;
}

std::int64_t pick(Random& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random.below(static_cast<std::int64_t>(values.size()))];
}

Case generate(Random& random) {
  Case c;
  CudaRequest& r = c.request;
  r.m = random.chance(0.5) ? random.between(1, 140)
                           : pick(random, {1,  2,  3,  4,  7,  8,   9,   16,  17,  31,
                                           32, 33, 63, 64, 65, 127, 128, 129, 255, 300});
  r.n = random.chance(0.4) ? random.between(1, 700)
                           : pick(random, {1, 7, 8, 16, 127, 128, 129, 255, 256, 512, 1000, 1024,
                                           2048, 3000, 4096, 6144});
  r.k = random.chance(0.8) ? random.between(1, 64) * 64 : random.between(1, 128) * 8;
  if (random.chance(0.1)) r.k = random.between(1, 700);
  if (random.chance(0.05)) r.k = 14336;
  if (random.chance(0.2)) {
    r.out = CudaOut::kF32;
  } else if (random.chance(0.3)) {
    r.silu_mul = true;
    if (random.chance(0.9)) r.n = (r.n + 7) / 8 * 8;
  } else {
    r.residual = random.chance(0.5);
  }
  while (2 * r.n * (r.k + 72) > kElementsMax) r.n = r.n / 2 / 8 * 8;
  r.bias = random.chance(0.4);
  r.norm = random.chance(0.25);
  if (random.chance(0.5)) r.share = CudaShare::kMore;
  c.facts.sm_count = static_cast<int>(pick(random, {132, 132, 132, 114, 16, 7, 1}));
  if (random.chance(0.3)) c.x_pad = 8 * random.between(0, 9);
  if (random.chance(0.3)) c.w_pad = 8 * random.between(0, 9);
  if (random.chance(0.3)) c.out_pad = random.between(0, 70);
  if (random.chance(0.3)) c.residual_pad = random.between(0, 70);
  if (random.chance(0.2)) c.out_offset = random.between(0, 8);
  c.in_place = r.residual && random.chance(0.5);
  c.seed = random.bits();
  return c;
}

// A product of such sizes in parts, which cuBLASLt can address, and often kSplit too.
Case in_parts(Case c, Random& random) {
  CudaRequest& r = c.request;
  r.parts = kPartsMax;
  const std::int64_t multiple = r.parts * (random.chance(0.3) ? 8 : 64);
  r.k = std::max(r.k / multiple, std::int64_t{1}) * multiple;
  c.out_offset = 0;
  c.out_pad += (r.n + c.out_pad) % 2;
  r.out = CudaOut::kF32;
  r.bias = r.norm = r.residual = r.silu_mul = c.in_place = false;
  return c;
}

// A weight of more tiles than there are SMs, so that kSplit's CTAs share some.
Case of_many_tiles(Case c, Random& random) {
  CudaRequest& r = c.request;
  r.m = random.between(17, 128);
  r.n = random.between(17000, 36000);
  if (r.silu_mul) r.n = r.n / 16 * 8;
  r.k = 64 * random.between(1, 8);
  r.norm = false;
  c.facts.sm_count = static_cast<int>(pick(random, {132, 132, 114}));
  return c;
}

// What a sweep asks of one kernel.
struct Swept {
  Case c;
  CudaPath path;
  int blocks;  // of kRows, else 0
  CudaPairs pairs = CudaPairs::kNone;
};

// Results of each kind, for each of which there are kernels: bf16, gated, f32, and what is left to
// the general ones.
Case of_finish(std::int64_t m, std::int64_t rows, std::int64_t k, int finish) {
  Case c;
  c.request = {.m = m, .n = finish == 1 ? rows / 2 : rows, .k = k};
  if (finish == 1) c.request.silu_mul = true;
  if (finish == 2) c.request.out = CudaOut::kF32;
  if (finish == 3) c.request.bias = true;
  return c;
}

// Every own kernel once, which random cases do not reach.
std::vector<Swept> sweep() {
  std::vector<Swept> all;
  for (int finish = 0; finish < 4; ++finish) {
    for (const std::int64_t m : {3, 12, 27}) {
      for (const int blocks : {1, 2, 3}) {
        for (const bool norm : {false, true}) {
          Case c = of_finish(m, 2048 * blocks, 384, finish);
          c.request.norm = norm;
          c.request.residual = finish == 0;
          all.push_back({c, CudaPath::kRows, blocks});
          c.request.k = 512;  // steps of 256 columns up to 8 rows
          if (m == 3 && blocks == 1) all.push_back({c, CudaPath::kRows, blocks});
        }
      }
    }
    for (const std::int64_t m : {5, 12, 27, 50, 90, 120}) {
      const bool pairs = m > 32 && finish != 3;
      all.push_back({of_finish(m, 17104, 320, finish), CudaPath::kSplit, 0,
                     pairs ? CudaPairs::kInputs : CudaPairs::kNone});
    }
  }
  // Shares of more steps than the ring has stages, which pairs tell each other of; and in parts.
  for (const int finish : {0, 1, 2}) {
    Case c = of_finish(finish == 0 ? 50 : finish == 1 ? 90 : 120, 1296, 1024, finish);
    c.facts.sm_count = kFewSms;
    all.push_back({c, CudaPath::kSplit, 0, CudaPairs::kInputs});
  }
  Case parts = of_finish(70, 1296, 2048, 2);
  parts.facts.sm_count = kFewSms;
  parts.request.parts = 2;
  all.push_back({parts, CudaPath::kSplit, 0, CudaPairs::kInputs});
  for (const int finish : {0, 2}) {
    for (const std::int64_t m : {40, 64, 65, 128}) {
      for (int parts = 1; parts <= (finish == 2 ? kPartsMax : 1); ++parts) {
        for (const std::int64_t k : {256, 1536}) {
          Case c = of_finish(m, 4104, k, finish);
          c.request.parts = parts;
          all.push_back({c, CudaPath::kSplit, 0, CudaPairs::kHalves});
        }
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].c.seed = i;
    if (i % 2 == 0) all[i].c.request.share = CudaShare::kMore;
  }
  return all;
}

bool run_swept(const Swept& swept, const Buffers& b, Ways& ways, Totals& totals) {
  const auto plan = plan_for(swept.path, swept.c.request, swept.c.facts);
  const bool boxes =
      swept.path == CudaPath::kSplit && plan.ok() && plan->batch > 16 && !swept.c.request.bias;
  if (!plan.ok() || plan->blocks != swept.blocks || plan->pairs != swept.pairs ||
      plan->boxes != boxes) {
    std::fprintf(stderr, "WRONG: the sweep's product has another plan than it is there for\n");
    return false;
  }
  return run_case(swept.c, swept.path, b, ways, totals);
}

// Products of kSplit one behind the other on one workspace, as in a step: flags and sums of one are
// there when the next one comes. Each must be to the bit what it is alone.
bool run_in_turns(const Buffers& b, CudaGemm& gemm) {
  constexpr int kTimes = 16;
  constexpr std::int64_t kApart = 10 << 20;  // bytes between their results
  constexpr int kKinds = 3;
  Case cases[kKinds];
  cases[0].request = {.m = 32, .n = 14336, .k = 256, .silu_mul = true};
  cases[1].request = {.m = 120, .n = 1296, .k = 1024, .out = CudaOut::kF32};
  cases[1].facts.sm_count = kFewSms;
  cases[2].request = {.m = 100, .n = 4096, .k = 1024, .out = CudaOut::kF32, .parts = 2};
  Run runs[kKinds] = {{cases[0], b, {}, {}}, {cases[1], b, {}, {}}, {cases[2], b, {}, {}}};
  for (Run& run : runs) run.fill_inputs();
  std::vector<char> alone[kKinds];
  for (int i = 0; i < kKinds; ++i) {
    const auto plan = plan_for(CudaPath::kSplit, cases[i].request, cases[i].facts);
    constexpr CudaPairs kPairs[] = {CudaPairs::kNone, CudaPairs::kInputs, CudaPairs::kHalves};
    if (!plan.ok() || plan->pairs != kPairs[i] || shares_tiles(*plan) != (i < 2)) return false;
    runs[i].plan = *plan;
    if (!runs[i].launch(gemm, *plan, b.out[0], Overlap::kNo).ok()) return false;
    alone[i] = runs[i].fetch(b.out[0]);
  }
  must(cudaMemsetAsync(b.out[1], 0xFF, kTimes * kApart, b.stream), "poison");
  for (int t = 0; t < kTimes; ++t) {
    Run& run = runs[t % kKinds];
    run.operands.out = b.out[1] + t * kApart;
    const Status status = gemm.run(run.plan, run.operands, b.workspace, b.stream, Overlap::kYes);
    if (!status.ok()) return false;
  }
  int wrong = 0;
  for (int t = 0; t < kTimes; ++t) {
    if (runs[t % kKinds].fetch(b.out[1] + t * kApart) != alone[t % kKinds]) ++wrong;
  }
  const bool zero = flags_zero(b);
  if (wrong != 0 || !zero) {
    std::fprintf(stderr, "WRONG: %d of %d products in turns differ%s\n", wrong, kTimes,
                 zero ? "" : ", flags left");
  }
  return wrong == 0 && zero;
}

// A product that drops what is not read again beside its work: that is gone, the rest stays, and
// the result is as without.
bool run_dropping(const Buffers& b, CudaGemm& gemm, Random& random) {
  Case c;
  c.request = {.m = random.between(33, 128), .n = 648, .k = 1024, .silu_mul = true};
  c.facts.sm_count = kFewSms;
  const auto plan = plan_for(CudaPath::kSplit, c.request, c.facts);
  if (!plan.ok() || !plan->drops) return false;
  Run run = {c, b, *plan, {}};
  run.fill_inputs();
  if (!run.launch(gemm, *plan, b.out[0], Overlap::kNo).ok()) return false;
  std::vector<testing::Partly> parts;
  for (std::size_t i = 0; i < kDiscardsMax; ++i) {
    parts.emplace_back(random);
    run.operands.discards[i] = parts.back().range();
  }
  for (testing::Partly& part : parts) part.write(b.stream);
  if (!run.launch(gemm, *plan, b.out[1], Overlap::kNo).ok()) return false;
  bool kept = run.fetch(b.out[1]) == run.fetch(b.out[0]);
  std::int64_t lines = 0, dropped = 0;
  for (const testing::Partly& part : parts) {
    const testing::Partly::Outcome outcome = part.outcome();
    kept = kept && outcome.rest_is_kept;
    lines += outcome.lines;
    dropped += outcome.dropped;
  }
  if (!kept) std::fprintf(stderr, "WRONG: what is discarded is not all that changes\n");
  const bool drops = dropped > 0 || lines == 0;
  if (!drops) std::fprintf(stderr, "WRONG: of %ld lines to discard none is dropped\n", lines);
  return kept && drops;
}

// Parts where a step leaves them, in a workspace of just the bytes that the plan says.
bool run_in_workspace(std::int64_t rows, std::int64_t n, CudaPath path, const Buffers& b,
                      CudaGemm& gemm) {
  Case c;
  c.request = {.m = rows, .n = n, .k = 2048, .out = CudaOut::kF32, .parts = kPartsMax};
  c.seed = static_cast<std::uint64_t>(rows);
  const auto plan = choose(c.request, c.facts);
  if (!plan.ok() || plan->path != path) return false;
  Run run = {c, b, *plan, {}};
  run.fill_inputs();
  poison_behind(b, *plan);
  char* const parts = reinterpret_cast<char*>(CudaGemm::parts_in(b.workspace));
  if (!run.launch(gemm, *plan, parts, Overlap::kYes).ok()) return false;
  clear_verdict(b);
  verify_parts({.operands = run.operands,
                .residual = nullptr,
                .m = rows,
                .n = c.request.n,
                .k = c.request.k,
                .out_f32 = true},
               kPartsMax, b);
  const Verdict verdict = fetch_verdict(b);
  const bool inside = kept_behind(b, *plan);
  const bool right = verdict.wrong == 0 && inside && flags_zero(b);
  if (!right) {
    std::fprintf(stderr, "WRONG: parts in the workspace: %llu wrong%s\n", verdict.wrong,
                 inside ? "" : ", written behind it");
    describe(c, *plan);
  }
  return right;
}

int run(int cases, std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu, %d cases\n", seed, cases);
  std::fflush(stdout);
  const Buffers buffers = make_buffers();
  auto gemm = CudaGemm::create();
  auto library = CublasLt::create();
  if (!gemm.ok() || !library.ok()) {
    const Error& error = gemm.ok() ? library.error() : gemm.error();
    std::fprintf(stderr, "FAILED: %s\n", error.message.c_str());
    return 1;
  }
  Ways ways = {std::move(*gemm), std::move(*library)};
  ways.no_batches.use_batches(false);
  if (!CudaGemm::prepare(buffers.workspace, buffers.stream).ok()) return 1;
  Random random(seed);
  Totals totals;
  int wrong = 0;
  // The most rows at which they are wanted, and one more; of pairs.
  for (const std::int64_t rows : {kPartsRowsMax, kPartsRowsMax + 1}) {
    if (!run_in_workspace(rows, 1024, CudaPath::kLibrary, buffers, ways.gemm)) ++wrong;
  }
  for (const std::int64_t rows : {33, 64, 128}) {
    if (!run_in_workspace(rows, 4096, CudaPath::kSplit, buffers, ways.gemm)) ++wrong;
  }
  if (!run_in_turns(buffers, ways.gemm)) ++wrong;
  if (!run_dropping(buffers, ways.gemm, random)) ++wrong;
  // With few cases (under compute-sanitizer) a part is swept, another one with another seed.
  const std::vector<Swept> swept = sweep();
  const std::size_t apart = cases < 100 ? 6 : 1;
  for (std::size_t i = seed % apart; i < swept.size() && wrong < 10; i += apart) {
    if (run_swept(swept[i], buffers, ways, totals)) continue;
    std::fprintf(stderr, "  (sweep, %zu)\n", i);
    ++wrong;
  }
  for (int i = 0; i < cases && wrong < 10; ++i) {
    Case c = generate(random);
    if (i % 8 == 3) c = in_parts(c, random);
    if (i % 8 == 5) c = of_many_tiles(c, random);
    for (const CudaPath path :
         {CudaPath::kRows, CudaPath::kSplit, CudaPath::kLibrary, CudaPath::kPlain}) {
      if (run_case(c, path, buffers, ways, totals)) continue;
      std::fprintf(stderr, "  (case %d)\n", i);
      ++wrong;
    }
  }
  if (cases >= 8 && (totals.shared == 0 || totals.halves == 0 || totals.inputs == 0)) {
    std::fprintf(stderr,
                 "WRONG: no case in which kSplit's CTAs share a tile, halve k or share x\n");
    ++wrong;
  }
  std::printf(
      "%s: %d wrong; rows %d, split %d (%d with shared tiles, %d in pairs that halve k, %d that "
      "share x), library %d, plain %d; "
      "largest error "
      "%.3f of the tolerance\n",
      wrong == 0 ? "PASSED" : "FAILED", wrong, totals.cases[0], totals.cases[1], totals.shared,
      totals.halves, totals.inputs, totals.cases[2], totals.cases[3], totals.error_max);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::kernels::gemm

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const int cases = arguments.number("--cases", 400);
  arguments.finish();
  return causeway::kernels::gemm::run(cases, seed);
}
