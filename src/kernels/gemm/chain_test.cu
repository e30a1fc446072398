// The chain of products on a GPU: generated chains on fresh random inputs, outputs and workspace
// poisoned; every link against f64 sums over what the link in front left in memory. Every chain is
// run three times on one workspace and must repeat to the bit; its first row must come out the same
// among fewer rows; the counters must be zero afterwards.
//   chain_gpu_test [--cases N] [--seed S]        exit code 77: no GPU
#include "kernels/gemm/chain_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::gemm {
namespace {

using testing::Device;
using testing::must;

struct Link {
  ChainShape shape;
  Device<BFloat16> w, bias, gains, residual, out, scaled;
  Device<float> out_f32;
  std::vector<BFloat16> residual_before;
  std::int64_t rows() const { return shape.silu_mul ? 2 * shape.n : shape.n; }
};

struct Case {
  std::int64_t m = 0;
  CudaFacts facts;
  std::vector<ChainShape> shapes;
  std::uint64_t seed = 0;
};

std::string describe(const Case& c) {
  std::string text = "m " + std::to_string(c.m) + " SMs " + std::to_string(c.facts.sm_count);
  for (const ChainShape& s : c.shapes) {
    text += " [" + std::to_string(s.n) + "x" + std::to_string(s.k) + (s.bias ? " bias" : "") +
            (s.residual ? " residual" : "") + (s.silu_mul ? " silu" : "") +
            (s.scales ? " scales" : "") + (s.normed ? " normed" : "") +
            (s.out == CudaOut::kF32 ? " f32" : "") + "]";
  }
  return text + " seed " + std::to_string(c.seed);
}

// What one link is checked against, on the GPU.
struct Check {
  const __nv_bfloat16 *x, *w, *bias, *residual, *unnormed;  // unnormed: what the norm is of
  const void* out;
  std::int64_t m, n, k;
  float epsilon;
  bool silu_mul, out_f32;
};

__device__ double wide(__nv_bfloat16 value) { return static_cast<double>(__bfloat162float(value)); }

__device__ double dot(const __nv_bfloat16* x, const __nv_bfloat16* w, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += wide(x[i]) * wide(w[i]);
  return sum;
}

__global__ void verify(const Check c, unsigned long long* wrong) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < c.m * c.n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t row = i / c.n, column = i % c.n;
    double factor = 1;
    if (c.unnormed != nullptr) {
      const __nv_bfloat16* whole = c.unnormed + row * c.k;
      factor = 1 / sqrt(dot(whole, whole, c.k) / static_cast<double>(c.k) +
                        static_cast<double>(c.epsilon));
    }
    const __nv_bfloat16* x = c.x + row * c.k;
    double value = factor * dot(x, c.w + column * c.k, c.k);
    double slack = factor * 3e-7 * static_cast<double>(c.k) + 1e-6 + 2e-6 * fabs(value);
    if (c.bias != nullptr) value += wide(c.bias[column]);
    if (c.silu_mul) {
      double up = factor * dot(x, c.w + (c.n + column) * c.k, c.k);
      if (c.bias != nullptr) up += wide(c.bias[c.n + column]);
      slack = (slack + (fabs(value) + fabs(up)) * 0x1p-8) * (1 + fabs(value) + fabs(up));
      value = value / (1 + exp(-value)) * up;
    }
    if (c.residual != nullptr) value += wide(c.residual[i]);
    const double got = c.out_f32 ? static_cast<double>(static_cast<const float*>(c.out)[i])
                                 : wide(static_cast<const __nv_bfloat16*>(c.out)[i]);
    const double tolerance = slack + fabs(value) * (c.out_f32 ? 1e-6 : 0x1.04p-8);
    if (!(fabs(got - value) <= tolerance)) atomicAdd(wrong, 1ull);
  }
}

__global__ void verify_scaled(const __nv_bfloat16* out, const __nv_bfloat16* gains,
                              const __nv_bfloat16* scaled, std::int64_t m, std::int64_t n,
                              unsigned long long* wrong) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < m * n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const float product = __bfloat162float(out[i]) * __bfloat162float(gains[i % n]);
    if (__bfloat16_as_ushort(__float2bfloat16_rn(product)) != __bfloat16_as_ushort(scaled[i])) {
      atomicAdd(wrong, 1ull);
    }
  }
}

const __nv_bfloat16* raw(const Device<BFloat16>& memory) {
  return reinterpret_cast<const __nv_bfloat16*>(memory.get());
}

class Runner {
 public:
  Runner(const Case& c, CudaChain& chain, cudaStream_t stream)
      : case_(c), chain_(chain), stream_(stream) {
    Random random(c.seed);
    first_ = Device<BFloat16>(testing::random_bf16(random, c.m * c.shapes[0].k).bf16);
    for (const ChainShape& s : c.shapes) {
      Link link{.shape = s};
      link.w = Device<BFloat16>(static_cast<std::size_t>(link.rows() * s.k));
      testing::fill(link.w, random.bits() % 1000);
      link.bias = Device<BFloat16>(testing::random_bf16(random, link.rows()).bf16);
      link.gains = Device<BFloat16>(testing::random_bf16(random, s.n).bf16);
      link.residual_before = testing::random_bf16(random, c.m * s.n).bf16;
      const auto size = static_cast<std::size_t>(c.m * s.n);
      link.residual = Device<BFloat16>(link.residual_before);
      link.out = Device<BFloat16>(size);
      link.scaled = Device<BFloat16>(size);
      if (s.out == CudaOut::kF32) link.out_f32 = Device<float>(size);
      links_.push_back(std::move(link));
    }
  }

  // All outputs' bytes after a run with the first `rows` rows.
  std::vector<std::vector<BFloat16>> run(std::int64_t rows, Device<char>& workspace,
                                         testing::Report& report) {
    const auto plan = plan_chain(rows, case_.shapes, case_.facts);
    must(plan.ok() ? Status() : Status(plan.error()));
    if (static_cast<std::int64_t>(workspace.size()) < plan->workspace.count) {
      workspace = Device<char>(to_size(plan->workspace));
      must(CudaGemm::prepare(workspace.get(), stream_));
    }
    const std::vector<ChainOperands> operands = operands_of();
    must(chain_.run(*plan, operands, workspace.get(), stream_));
    must(cudaStreamSynchronize(stream_), describe(case_).c_str());
    std::vector<char> counters(to_size(kCounterBytes));
    must(cudaMemcpy(counters.data(), workspace.get(), counters.size(), cudaMemcpyDeviceToHost),
         "counters");
    report.check(std::all_of(counters.begin(), counters.end(), [](char x) { return x == 0; }),
                 describe(case_) + ": counters left");
    std::vector<std::vector<BFloat16>> outputs;
    for (const Link& link : links_) {
      if (link.shape.out == CudaOut::kBF16) outputs.push_back(link.out.fetch());
      if (link.shape.scales) outputs.push_back(link.scaled.fetch());
    }
    return outputs;
  }

  void verify_links(testing::Report& report) {
    Device<unsigned long long> wrong(std::vector<unsigned long long>{0});
    const __nv_bfloat16* unnormed = nullptr;
    const std::vector<ChainOperands> operands = operands_of();
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      const ChainShape& s = link.shape;
      const Check check{.x = static_cast<const __nv_bfloat16*>(operands[i].x),
                        .w = raw(link.w),
                        .bias = s.bias ? raw(link.bias) : nullptr,
                        .residual = s.residual ? raw(link.residual) : nullptr,
                        .unnormed = s.normed ? unnormed : nullptr,
                        .out = operands[i].out,
                        .m = case_.m,
                        .n = s.n,
                        .k = s.k,
                        .epsilon = 1e-5f,
                        .silu_mul = s.silu_mul,
                        .out_f32 = s.out == CudaOut::kF32};
      verify<<<1056, 128, 0, stream_>>>(check, wrong.get());
      if (s.scales) {
        unnormed = raw(link.out);
        verify_scaled<<<264, 128, 0, stream_>>>(raw(link.out), raw(link.gains), raw(link.scaled),
                                                case_.m, s.n, wrong.get());
      }
      must(cudaStreamSynchronize(stream_), "verifying");
      const auto count = wrong.fetch()[0];
      report.check(count == 0, describe(case_) + ": link " + std::to_string(i) + ": " +
                                   std::to_string(count) + " wrong so far");
    }
  }

 private:
  // A link reads what the nearest link in front of the right width left, or the first x.
  std::vector<ChainOperands> operands_of() const {
    std::vector<ChainOperands> all;
    const void* x = first_.get();
    for (const Link& link : links_) {
      const bool f32 = link.shape.out == CudaOut::kF32;
      all.push_back({.x = x,
                     .w = link.w.get(),
                     .bias = link.bias.get(),
                     .residual = link.residual.get(),
                     .out = f32 ? static_cast<void*>(link.out_f32.get())
                                : static_cast<void*>(link.out.get()),
                     .gains = link.gains.get(),
                     .scaled = link.scaled.get(),
                     .epsilon = 1e-5f});
      x = link.shape.scales ? link.scaled.get() : link.out.get();
    }
    return all;
  }

  const Case& case_;
  CudaChain& chain_;
  cudaStream_t stream_;
  Device<BFloat16> first_;
  std::vector<Link> links_;
};

void run_case(const Case& c, CudaChain& chain, cudaStream_t stream, testing::Report& report) {
  Runner runner(c, chain, stream);
  Device<char> workspace;
  const auto first = runner.run(c.m, workspace, report);
  runner.verify_links(report);
  const auto same = [](const auto& a, const auto& b, std::int64_t rows, const Case& of) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t width = a[i].size() / static_cast<std::size_t>(of.m);
      if (std::memcmp(a[i].data(), b[i].data(), 2 * width * static_cast<std::size_t>(rows)) != 0) {
        return false;
      }
    }
    return true;
  };
  for (int i = 0; i < 2; ++i) {
    report.check(same(first, runner.run(c.m, workspace, report), c.m, c),
                 describe(c) + ": differs between runs");
  }
  const std::int64_t fewer = c.m > 64 ? 65 : 1;
  report.check(same(first, runner.run(fewer, workspace, report), fewer, c),
               describe(c) + ": a row depends on the others");
}

// A chain whose links fit each other; k of a link is n of the one in front.
Case generate(Random& random) {
  Case c;
  c.m = random.chance(0.3) ? std::int64_t{128} : random.between(1, 128);
  const std::int64_t sms[] = {132, 132, 132, 78, 16, 5, 1};
  c.facts.sm_count = static_cast<int>(sms[random.below(7)]);
  const std::int64_t count = random.between(1, kChainLinksMax);
  std::int64_t k = 64 * random.between(1, 40);
  bool scales_before = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    ChainShape s{.n = last ? 8 * random.between(1, 400) : 64 * random.between(1, 50), .k = k};
    s.bias = random.chance(0.3);
    s.normed = scales_before && random.chance(0.8);
    s.silu_mul = random.chance(0.3);
    s.residual = !s.silu_mul && random.chance(0.5);
    s.scales = !s.silu_mul && random.chance(0.6);
    if (last && !s.silu_mul && !s.residual && !s.scales && random.chance(0.5)) {
      s.out = CudaOut::kF32;
    }
    scales_before = s.scales;
    c.shapes.push_back(s);
    k = s.n;
  }
  c.seed = random.bits();
  return c;
}

// A layer's products of the models served, as the forward pass chains them.
std::vector<Case> layers() {
  std::vector<Case> all;
  const struct {
    std::int64_t hidden, q, qkv, inner;
    bool bias;
  } models[] = {{4096, 4096, 6144, 14336, false},
                {3584, 3584, 4608, 18944, true},
                {2048, 2048, 3072, 8192, false},
                {1024, 2048, 4096, 3072, false}};
  for (const auto& m : models) {
    for (const std::int64_t rows : {17, 32, 64, 100, 128}) {
      Case c{.m = rows, .seed = static_cast<std::uint64_t>(rows)};
      c.shapes = {{.n = m.hidden, .k = m.q, .residual = true, .scales = true},
                  {.n = m.inner, .k = m.hidden, .silu_mul = true, .normed = true},
                  {.n = m.hidden, .k = m.inner, .residual = true, .scales = true},
                  {.n = m.qkv, .k = m.hidden, .bias = m.bias, .normed = true}};
      all.push_back(c);
    }
  }
  return all;
}

int run_all(int cases, std::uint64_t seed) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu\n", seed);
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  auto chain = CudaChain::create();
  must(chain.ok() ? Status() : Status(chain.error()));
  testing::Report report;
  Random random(seed);
  for (int i = 0; i < cases; ++i) run_case(generate(random), *chain, stream, report);
  for (const Case& c : layers()) {
    if (cases >= 20) run_case(c, *chain, stream, report);
  }
  must(cudaStreamDestroy(stream), "stream");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::gemm

int main(int argc, char** argv) {
  int cases = 60;
  std::uint64_t seed = 20260101;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--cases") cases = std::atoi(argv[i + 1]);
    if (std::string(argv[i]) == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return causeway::kernels::gemm::run_all(cases, seed);
}
