// HybridGEMM against its limits and its rivals, all measured in one run:
//   floor      every byte of W read once by a kernel, at home
//   copy       the copy engine bringing W into HBM (what rivals that stage cannot beat)
//   resident   cuBLAS with W in HBM
//   in-place   cuBLAS reading W at home
//   copy+gemm  copy, then cuBLAS
//   chunked    16 column chunks, double-buffered copies overlapped with cuBLAS (the honest rival)
//   ours       symmetric (α = 1), kPanel and kRing (α = 0), and a sweep of α
//
//   hybrid_gemm_bench [--home host|peer|hbm] [--sms N] [--rows M,M,…] [--alpha M,M,…] [--n N] [--k
//   K]
//                     [--reps R] [--quick 1] [--relays N] [--window N]
// --home peer needs a second GPU; W lies there. --sms below the GPU's count makes a green context
// of that many. --alpha: row counts for the sweep. One line of JSON a measurement on stdout; a
// readable one on stderr. Each result is compared with the resident product before it is timed.
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::hybrid_gemm {
namespace {

void must(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}
void must(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "FAILED: %s: cuBLAS %d\n", what, static_cast<int>(code));
  std::exit(1);
}
void must(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  std::fprintf(stderr, "FAILED: %s: CUresult %d\n", what, static_cast<int>(code));
  std::exit(1);
}

struct Options {
  std::string home = "host";
  int sms = 0;  // 0: all
  std::vector<std::int64_t> rows = {1, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 10240};
  std::vector<std::int64_t> alpha_rows = {1024, 4096, 10240};
  std::int64_t n = 16384, k = 4096;
  int reps = 7;
  bool quick = false;  // ours only
  int relays = 0;      // Plan::relay_ctas, unless 0
  int window = 0;      // Plan::load_window, unless 0
};

std::vector<std::int64_t> parse_list(const std::string& text) {
  std::vector<std::int64_t> list;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) list.push_back(std::atoll(item.c_str()));
  return list;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--home")
      options.home = value;
    else if (name == "--sms")
      options.sms = std::atoi(value.c_str());
    else if (name == "--rows")
      options.rows = parse_list(value);
    else if (name == "--alpha")
      options.alpha_rows = parse_list(value);
    else if (name == "--n")
      options.n = std::atoll(value.c_str());
    else if (name == "--k")
      options.k = std::atoll(value.c_str());
    else if (name == "--reps")
      options.reps = std::atoi(value.c_str());
    else if (name == "--relays")
      options.relays = std::atoi(value.c_str());
    else if (name == "--window")
      options.window = std::atoi(value.c_str());
    else if (name == "--quick")
      options.quick = value != "0";
    else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

// A driver function by name, so that nothing links libcuda.
template <typename Function>
Function driver(const char* name, int version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  must(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found), name);
  return reinterpret_cast<Function>(function);
}

// A stream over `sms` SMs (a green context), or over the whole device for 0.
cudaStream_t make_stream(int sms) {
  cudaStream_t stream = nullptr;
  if (sms == 0) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
  }
#define CAUSEWAY_DRIVER(name) driver<decltype(&name)>(#name, 12060)
  CUdevResource all = {}, rest = {}, slice[1] = {};
  must(CAUSEWAY_DRIVER(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM), "SMs");
  unsigned count = 1;
  must(CAUSEWAY_DRIVER(cuDevSmResourceSplitByCount)(slice, &count, &all, &rest, 0,
                                                    static_cast<unsigned>(sms)),
       "split");
  CUdevResourceDesc description;
  must(CAUSEWAY_DRIVER(cuDevResourceGenerateDesc)(&description, slice, 1), "description");
  CUgreenCtx context;
  must(CAUSEWAY_DRIVER(cuGreenCtxCreate)(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM),
       "green context");
  CUstream green;
  must(CAUSEWAY_DRIVER(cuGreenCtxStreamCreate)(&green, context, CU_STREAM_NON_BLOCKING, 0),
       "green stream");
#undef CAUSEWAY_DRIVER
  return green;
}

__global__ void fill(__nv_bfloat16* matrix, int64_t size, unsigned seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size;
       i += int64_t{gridDim.x} * blockDim.x) {
    unsigned long long z = (i + 1) * 0x9E3779B97F4A7C15ull + seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    matrix[i] = __float2bfloat16_rn(static_cast<int>(z >> 40) * 0x1.0p-23f - 1.0f);
  }
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

struct Bench {
  Options options;
  cudaStream_t stream = nullptr, copy_stream = nullptr;
  cublasHandle_t blas = nullptr;
  SliceFacts slice;
  cudaEvent_t begin = nullptr, end = nullptr, landed[2] = {}, used[2] = {};
  __nv_bfloat16* x = nullptr;  // [m_max × k]
  __nv_bfloat16* o = nullptr;  // [m_max × n]
  __nv_bfloat16* expected = nullptr;
  __nv_bfloat16* w = nullptr;      // [n × k] at home
  __nv_bfloat16* w_hbm = nullptr;  // [n × k]: resident copy, and where rivals stage
  char* workspace = nullptr;
  double* sums = nullptr;
  unsigned* sink = nullptr;
};

constexpr std::int64_t kWorkspaceMax = std::int64_t{80} << 20;
constexpr int kChunks = 16;

Bench make_bench(const Options& options) {
  Bench b;
  b.options = options;
  must(cudaSetDevice(0), "device 0");
  cudaDeviceProp properties;
  must(cudaGetDeviceProperties(&properties, 0), "properties");
  const std::int64_t m_max = *std::max_element(options.rows.begin(), options.rows.end());
  const std::size_t w_bytes = static_cast<std::size_t>(options.n * options.k) * 2;
  must(cudaMalloc(&b.x, static_cast<std::size_t>(m_max * options.k) * 2), "x");
  must(cudaMalloc(&b.o, static_cast<std::size_t>(m_max * options.n) * 2), "o");
  must(cudaMalloc(&b.expected, static_cast<std::size_t>(m_max * options.n) * 2), "expected");
  must(cudaMalloc(&b.w_hbm, w_bytes), "w");
  must(cudaMalloc(&b.workspace, kWorkspaceMax), "workspace");
  must(cudaMalloc(&b.sums, 2 * sizeof(double)), "sums");
  must(cudaMalloc(&b.sink, sizeof(unsigned)), "sink");
  if (options.home == "host") {
    must(cudaHostAlloc(&b.w, w_bytes, cudaHostAllocMapped), "w at home");
  } else if (options.home == "peer") {
    must(cudaSetDevice(1), "device 1");
    must(cudaMalloc(&b.w, w_bytes), "w at home");
    must(cudaSetDevice(0), "device 0");
    must(cudaDeviceEnablePeerAccess(1, 0), "peer access");
  } else {
    must(cudaMalloc(&b.w, w_bytes), "w at home");
  }
  b.stream = make_stream(options.sms);
  must(cudaStreamCreateWithFlags(&b.copy_stream, cudaStreamNonBlocking), "copy stream");
  must(cublasCreate(&b.blas), "cuBLAS");
  must(cublasSetStream(b.blas, b.stream), "cuBLAS stream");
  b.slice.sm_count = options.sms == 0 ? properties.multiProcessorCount : options.sms;
  must(cublasSetSmCountTarget(b.blas, options.sms), "cuBLAS SMs");
  const auto clusters = clusters_that_fit(b.stream);
  if (clusters.ok()) b.slice.clusters = *clusters;
  std::fprintf(stderr, "%s, %d SMs, clusters of 1, 2, 4, 8 that fit: %d %d %d %d\n",
               properties.name, b.slice.sm_count, b.slice.clusters[0], b.slice.clusters[1],
               b.slice.clusters[2], b.slice.clusters[3]);
  for (cudaEvent_t* e : {&b.begin, &b.end}) must(cudaEventCreate(e), "event");
  for (int i = 0; i < 2; ++i) {
    must(cudaEventCreateWithFlags(&b.landed[i], cudaEventDisableTiming), "event");
    must(cudaEventCreateWithFlags(&b.used[i], cudaEventDisableTiming), "event");
  }
  fill<<<1024, 256, 0, b.stream>>>(b.x, m_max * options.k, 1);
  fill<<<1024, 256, 0, b.stream>>>(b.w_hbm, options.n * options.k, 2);
  must(cudaMemcpyAsync(b.w, b.w_hbm, w_bytes, cudaMemcpyDefault, b.stream), "w at home");
  must(cudaStreamSynchronize(b.stream), "inputs");
  return b;
}

struct Times {
  double median = 0, low = 0, high = 0;  // ms
};

Times time(const Bench& b, const std::function<void()>& work) {
  work();
  must(cudaStreamSynchronize(b.stream), "warm-up");
  std::vector<float> all;
  const int warm = 1;
  for (int i = 0; i < b.options.reps + warm; ++i) {
    must(cudaEventRecord(b.begin, b.stream), "begin");
    work();
    must(cudaEventRecord(b.end, b.stream), "end");
    must(cudaEventSynchronize(b.end), "timed work");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, b.begin, b.end), "time");
    if (i >= warm) all.push_back(ms);
  }
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all.front(), all.back()};
}

// Row-major O[m × columns] of stride n = X · W[columns × k]ᵀ.
void cublas(const Bench& b, std::int64_t m, const __nv_bfloat16* w, std::int64_t columns,
            __nv_bfloat16* o) {
  const float one = 1.0f, zero = 0.0f;
  must(cublasGemmEx(b.blas, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(columns),
                    static_cast<int>(m), static_cast<int>(b.options.k), &one, w, CUDA_R_16BF,
                    static_cast<int>(b.options.k), b.x, CUDA_R_16BF, static_cast<int>(b.options.k),
                    &zero, o, CUDA_R_16BF, static_cast<int>(b.options.n), CUBLAS_COMPUTE_32F,
                    CUBLAS_GEMM_DEFAULT),
       "cublasGemmEx");
}

// Column chunks copied into two buffers by turns while the chunk before is multiplied.
void chunked(const Bench& b, std::int64_t m) {
  const std::int64_t columns = b.options.n / kChunks;
  const std::size_t bytes = static_cast<std::size_t>(columns * b.options.k) * 2;
  must(cudaEventRecord(b.used[0], b.stream), "used");
  must(cudaEventRecord(b.used[1], b.stream), "used");
  for (int c = 0; c < kChunks; ++c) {
    const int side = c % 2;
    __nv_bfloat16* target = b.w_hbm + side * columns * b.options.k;
    must(cudaStreamWaitEvent(b.copy_stream, b.used[side], 0), "wait");
    must(cudaMemcpyAsync(target, b.w + c * columns * b.options.k, bytes, cudaMemcpyDefault,
                         b.copy_stream),
         "copy");
    must(cudaEventRecord(b.landed[side], b.copy_stream), "landed");
    must(cudaStreamWaitEvent(b.stream, b.landed[side], 0), "wait");
    cublas(b, m, target, columns, b.o + c * columns);
    must(cudaEventRecord(b.used[side], b.stream), "used");
  }
}

// ‖o − expected‖ / ‖expected‖, with o poisoned before `work`.
double error_of(const Bench& b, std::int64_t m, const std::function<void()>& work) {
  const std::int64_t size = m * b.options.n;
  must(cudaMemsetAsync(b.o, 0xFF, static_cast<std::size_t>(size) * 2, b.stream), "poison");
  work();
  must(cudaMemsetAsync(b.sums, 0, 2 * sizeof(double), b.stream), "sums");
  compare<<<1024, 256, 0, b.stream>>>(b.o, b.expected, size, b.sums);
  double sums[2];
  must(cudaMemcpyAsync(sums, b.sums, sizeof sums, cudaMemcpyDeviceToHost, b.stream), "sums");
  must(cudaStreamSynchronize(b.stream), "checked work");
  return std::sqrt(sums[0] / sums[1]);
}

void report(const Bench& b, const std::string& name, std::int64_t m, double alpha, const Times& t,
            double error, const Plan* plan) {
  const double gbytes = static_cast<double>(b.options.n * b.options.k) * 2 / 1e9;
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(b.options.n * b.options.k);
  std::printf(
      "{\"home\":\"%s\",\"sms\":%d,\"way\":\"%s\",\"m\":%ld,\"n\":%ld,\"k\":%ld,"
      "\"alpha\":%.3f,\"ms\":%.4f,\"ms_low\":%.4f,\"ms_high\":%.4f,\"error\":%.2e,"
      "\"cluster\":%d,\"sym_ctas\":%d,\"link_gb\":%.4f}\n",
      b.options.home.c_str(), b.slice.sm_count, name.c_str(), m, b.options.n, b.options.k, alpha,
      t.median, t.low, t.high, error, plan ? plan->cluster_ctas : 0,
      plan ? plan->symmetric_ctas : 0,
      plan ? static_cast<double>(plan->link_bytes.count) / 1e9 : gbytes);
  std::fflush(stdout);
  std::fprintf(stderr,
               "%-4s %3d SMs m %5ld %-12s a %.2f  %8.3f ms [%8.3f %8.3f] W %6.1f GB/s "
               "%6.1f TFLOP/s err %.1e%s\n",
               b.options.home.c_str(), b.slice.sm_count, m, name.c_str(), alpha, t.median, t.low,
               t.high, gbytes / t.median * 1e3, flops / t.median / 1e9, error,
               error < 5e-3 ? "" : "  WRONG");
}

struct Way {
  const char* name;
  double alpha;
  Asymmetric asymmetric;
  int cluster;
};

void run_ours(const Bench& b, std::int64_t m, const Way& way) {
  auto plan = choose({.shape = {m, b.options.n, b.options.k},
                      .alpha = way.alpha,
                      .asymmetric = way.asymmetric,
                      .cluster_ctas = way.cluster},
                     b.slice);
  if (!plan.ok() || plan->workspace.count > kWorkspaceMax) {
    std::fprintf(stderr, "%s: no plan\n", way.name);
    return;
  }
  if (b.options.relays > 0 && plan->relay_ctas > 0) {
    const int relays = std::max(1, b.options.relays / plan->cluster_ctas) * plan->cluster_ctas;
    plan->asymmetric_ctas += plan->relay_ctas - relays;
    plan->relay_ctas = relays;
  }
  if (b.options.window > 0) plan->load_window = b.options.window;
  const Operands operands = {.x = b.x,
                             .w = b.w,
                             .o = b.o,
                             .x_stride = b.options.k,
                             .w_stride = b.options.k,
                             .o_stride = b.options.n,
                             .workspace = b.workspace};
  const auto work = [&] {
    const Status status = launch(*plan, operands, b.stream);
    if (!status.ok()) std::fprintf(stderr, "%s: %s\n", way.name, status.error().message.c_str());
  };
  const double error = error_of(b, m, work);
  report(b, way.name, m, way.alpha, time(b, work), error, &*plan);
}

void run_rivals(const Bench& b, std::int64_t m) {
  const std::size_t w_bytes = static_cast<std::size_t>(b.options.n * b.options.k) * 2;
  const auto copy = [&] {
    must(cudaMemcpyAsync(b.w_hbm, b.w, w_bytes, cudaMemcpyDefault, b.stream), "copy");
  };
  const auto measure = [&](const char* name, const std::function<void()>& work) {
    const double error = error_of(b, m, work);
    report(b, name, m, 0, time(b, work), error, nullptr);
  };
  measure("resident", [&] { cublas(b, m, b.w_hbm, b.options.n, b.o); });
  measure("in-place", [&] { cublas(b, m, b.w, b.options.n, b.o); });
  measure("copy+gemm", [&] {
    copy();
    cublas(b, m, b.w_hbm, b.options.n, b.o);
  });
  measure("chunked", [&] { chunked(b, m); });
  copy();  // the chunks have left only the last two in the resident copy
}

int run(const Options& options) {
  Bench b = make_bench(options);
  const std::int64_t words = options.n * options.k / 8;
  const Times floor = time(b, [&] {
    read_all<<<b.slice.sm_count * 4, 512, 0, b.stream>>>(reinterpret_cast<uint4*>(b.w), words,
                                                         b.sink);
  });
  report(b, "floor", 0, 0, floor, 0, nullptr);
  report(b, "copy", 0, 0,
         time(b,
              [&] {
                must(cudaMemcpyAsync(b.w_hbm, b.w, static_cast<std::size_t>(words) * 16,
                                     cudaMemcpyDefault, b.stream),
                     "copy");
              }),
         0, nullptr);
  if (options.home != "host") b.slice.relay_gb_per_s = 26.0;
  b.slice.link_gb_per_s = static_cast<double>(words) * 16 / floor.median / 1e6;
  for (const std::int64_t m : options.rows) {
    cublas(b, m, b.w_hbm, options.n, b.expected);
    if (!options.quick) run_rivals(b, m);
    run_ours(b, m, {"symmetric", 1.0, Asymmetric::kRing, 0});
    run_ours(b, m, {"panel", 0.0, Asymmetric::kPanel, 0});
    run_ours(b, m, {"ring", 0.0, Asymmetric::kRing, 0});
    const auto& sweep = options.alpha_rows;
    if (std::find(sweep.begin(), sweep.end(), m) == sweep.end()) continue;
    run_ours(b, m, {"symmetric-1", 1.0, Asymmetric::kRing, 1});
    for (const double alpha : {0.125, 0.25, 0.5, 0.75}) {
      run_ours(b, m, {"panel", alpha, Asymmetric::kPanel, 0});
      run_ours(b, m, {"ring", alpha, Asymmetric::kRing, 0});
    }
  }
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::hybrid_gemm

int main(int argc, char** argv) {
  return causeway::kernels::hybrid_gemm::run(causeway::kernels::hybrid_gemm::parse(argc, argv));
}
