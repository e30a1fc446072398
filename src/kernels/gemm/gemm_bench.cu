// The resident-weight product against its limits, all measured in one run:
//   read       a kernel that only reads, over buffers larger than L2: the floor's bandwidth
//   weights    all weights by the copy engine alone, in kSplit's steps and otherwise
//   peak       cuBLASLt at 8192³
//   shapes     per weight shape and m: ours (both kernels), the best that cuBLASLt's
//              heuristics offer, the first that they offer, and the floor; weights rotate, so that
//              L2 does not hold them, and launches follow each other in a CUDA graph
//   chain      the products of a whole decode step of Llama-3.1-8B, every weight at its own place
//              (15 GB), in one CUDA graph, against bytes ÷ read bandwidth
//
//   gemm_gpu_bench [--what read,weights,peak,shapes,chain] [--rows M,M,…] [--reps R]
// One line of JSON a measurement on stdout, a readable one on stderr.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/read_weights.cuh"
#include "kernels/gemm/tensor_map.cuh"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/random.cuh"

namespace causeway::kernels::gemm {
namespace {

using testing::fill_random;
using testing::must;

struct Options {
  std::string what = "read,weights,peak,shapes,chain";
  std::vector<std::int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 8192};
  int reps = 7;
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
    if (name == "--what")
      options.what = value;
    else if (name == "--rows")
      options.rows = parse_list(value);
    else if (name == "--reps")
      options.reps = std::atoi(value.c_str());
    else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

// Reads `size` 16-byte words once.
__global__ void read_all(const uint4* source, int64_t size, unsigned* sink) {
  unsigned sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * stride < size; i += 8 * stride) {
    uint4 words[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) words[j] = __ldcs(source + i + j * stride);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += words[j].x ^ words[j].y ^ words[j].z ^ words[j].w;
  }
  for (; i < size; i += stride) sum += source[i].x;
  if (sum == 0x12345678) *sink = sum;
}

struct Bench {
  Options options;
  CudaGemm gemm;
  CublasLt library;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  CudaFacts facts;
  __nv_bfloat16* pool = nullptr;  // weights
  std::int64_t pool_elements = 0;
  __nv_bfloat16 *x = nullptr, *hidden = nullptr, *other = nullptr;  // activations
  char* out = nullptr;
  char* workspace = nullptr;
  double read_bytes_per_us = 0;
};

constexpr std::int64_t kPoolElements = std::int64_t{7700} << 20;
constexpr std::int64_t kActivations = std::int64_t{8192} * 28672;
constexpr std::int64_t kOutBytes = std::int64_t{8192} * 128256 * 4;

Bench make_bench(const Options& options) {
  Bench b = {options, must(CudaGemm::create()), must(CublasLt::create())};
  cudaDeviceProp properties;
  must(cudaGetDeviceProperties(&properties, 0), "properties");
  b.facts.sm_count = properties.multiProcessorCount;
  b.pool_elements = kPoolElements;
  must(cudaMalloc(&b.pool, static_cast<std::size_t>(kPoolElements) * 2), "weights");
  for (__nv_bfloat16** p : {&b.x, &b.hidden, &b.other}) {
    must(cudaMalloc(p, static_cast<std::size_t>(kActivations) * 2), "activations");
  }
  must(cudaMalloc(&b.out, static_cast<std::size_t>(kOutBytes)), "out");
  must(cudaMalloc(&b.workspace, std::size_t{1} << 30), "workspace");
  must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream");
  must(cudaEventCreate(&b.begin), "event");
  must(cudaEventCreate(&b.end), "event");
  must(CudaGemm::prepare(b.workspace, b.stream));
  fill_random<<<2048, 256, 0, b.stream>>>(b.pool, b.pool_elements, 1, 0.027f);  // ≈ 1/√4096 · √3
  for (__nv_bfloat16* p : {b.x, b.hidden, b.other}) {
    fill_random<<<2048, 256, 0, b.stream>>>(p, kActivations, 2, 1.0f);
  }
  must(cudaStreamSynchronize(b.stream), "inputs");
  std::fprintf(stderr, "%s, %d SMs, L2 %.0f MB\n", properties.name, b.facts.sm_count,
               properties.l2CacheSize / 1e6);
  return b;
}

struct Times {
  double median = 0, low = 0, high = 0;  // µs
};

Times spread(std::vector<float> all, double scale) {
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2] * scale, all.front() * scale, all.back() * scale};
}

// Captures `work` into a graph and times its replays; µs of one of `parts` equal parts.
Times time(const Bench& b, int parts, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  must(cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeThreadLocal), "capture");
  work();
  must(cudaStreamEndCapture(b.stream, &graph), "capture");
  must(cudaGraphInstantiate(&runnable, graph, 0), "graph");
  for (int i = 0; i < 2; ++i) must(cudaGraphLaunch(runnable, b.stream), "warm-up");
  std::vector<float> all;
  for (int i = 0; i < b.options.reps; ++i) {
    must(cudaEventRecord(b.begin, b.stream), "begin");
    must(cudaGraphLaunch(runnable, b.stream), "graph");
    must(cudaEventRecord(b.end, b.stream), "end");
    must(cudaEventSynchronize(b.end), "timed work");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, b.begin, b.end), "time");
    all.push_back(ms);
  }
  must(cudaGraphExecDestroy(runnable), "graph");
  must(cudaGraphDestroy(graph), "graph");
  return spread(std::move(all), 1e3 / parts);
}

void measure_read(Bench& b) {
  const std::int64_t bytes = b.pool_elements * 2;
  double best = 1e300;
  for (const int blocks : {132 * 8, 132 * 16, 132 * 32}) {
    const Times t = time(b, 1, [&] {
      read_all<<<blocks, 256, 0, b.stream>>>(reinterpret_cast<const uint4*>(b.pool), bytes / 16,
                                             reinterpret_cast<unsigned*>(b.out));
    });
    best = std::min(best, t.median);
  }
  b.read_bytes_per_us = static_cast<double>(bytes) / best;
  std::printf("{\"what\":\"read\",\"gb_per_s\":%.1f}\n", b.read_bytes_per_us / 1e3);
  std::fprintf(stderr, "read: %.0f GB/s\n", b.read_bytes_per_us / 1e3);
}

// All of the pool as one matrix of Llama-3.1-8B's k.
void measure_weights(Bench& b) {
  constexpr std::int64_t kColumns = 4096;
  const std::int64_t tiles = b.pool_elements / (kColumns * kSplitRows);
  const TensorShape shape = {.rank = 2,
                             .sizes = {map_size(kColumns), map_size(tiles * kSplitRows)},
                             .strides = {map_size(kColumns * 2)},
                             .box = {map_box(kSplitStepK), map_box(kSplitRows)}};
  const CUtensorMap map = must(encode(must(find_encoder()), b.pool, shape));
  must(cudaFuncSetAttribute(read_weights, cudaFuncAttributeMaxDynamicSharedMemorySize, kReadShared),
       "shared memory");
  const auto bytes = static_cast<double>(tiles * kSplitRows * kColumns * 2);
  for (const bool boxes : {false, true}) {
    for (const int together : {1, 2, 4}) {
      const ReadWeights args = {b.pool, tiles, kColumns / kSplitStepK, boxes, together};
      const Times t = time(b, 1, [&] {
        read_weights<<<static_cast<unsigned>(b.facts.sm_count), 32, kReadShared, b.stream>>>(map,
                                                                                             args);
      });
      const char* way = boxes ? "boxes of 128 rows" : "as they lie";
      std::printf("{\"what\":\"weights\",\"way\":\"%s\",\"together\":%d,\"gb_per_s\":%.1f}\n", way,
                  together, bytes / t.median / 1e3);
      std::fprintf(stderr, "weights: %s, %d at once: %.0f GB/s\n", way, together,
                   bytes / t.median / 1e3);
    }
  }
}

struct Weight {
  const char* name;
  std::int64_t n, k;
  bool f32, silu_mul;
};

CudaRequest request_of(const Weight& w, std::int64_t m) {
  CudaRequest r = {.m = m, .n = w.silu_mul ? w.n / 2 : w.n, .k = w.k};
  r.out = w.f32 ? CudaOut::kF32 : CudaOut::kBF16;
  r.silu_mul = w.silu_mul;
  return r;
}

CudaOperands operands_of(const Bench& b, const Weight& w, const CudaRequest& r,
                         std::int64_t place) {
  CudaOperands o;
  o.x = b.x;
  o.w = b.pool + place * w.n * w.k;
  o.out = b.out;
  o.x_stride = w.k;
  o.w_stride = w.k;
  o.out_stride = r.n;
  return o;
}

void measure_peak(Bench& b) {
  const Weight w = {"peak", 8192, 8192, false, false};
  CudaPlan plan;
  plan.request = request_of(w, 8192);
  plan.path = CudaPath::kLibrary;
  const Times t = time(b, 8, [&] {
    for (int i = 0; i < 8; ++i) {
      must(b.library.run(plan, operands_of(b, w, plan.request, i), b.workspace, b.stream));
    }
  });
  const double tflops = 2.0 * 8192 * 8192 * 8192 / t.median / 1e6;
  std::printf("{\"what\":\"peak\",\"tflop_per_s\":%.1f}\n", tflops);
  std::fprintf(stderr, "peak: %.0f TFLOP/s\n", tflops);
}

// How many launches of one graph: enough bytes to leave L2 far behind, at least four.
int launches_of(const Bench& b, const Weight& w) {
  const std::int64_t bytes = w.n * w.k * 2;
  const std::int64_t fit = b.pool_elements * 2 / bytes;
  return static_cast<int>(
      std::max<std::int64_t>(4, std::min<std::int64_t>(fit, (std::int64_t{1} << 30) / bytes)));
}

struct LibraryTimes {
  Times first, best;
};

LibraryTimes measure_library(Bench& b, const Weight& w, std::int64_t m, int launches) {
  CudaPlan plan;
  Weight plain = w;
  plain.silu_mul = false;  // the product alone: the library has no such epilogue
  plan.request = request_of(plain, m);
  plan.path = CudaPath::kLibrary;
  const int count = must(b.library.algorithms(plan, operands_of(b, plain, plan.request, 0)));
  LibraryTimes result;
  if (count == 0) return result;
  for (int i = 0; i < count; ++i) {
    must(b.library.select(plan, operands_of(b, plain, plan.request, 0), i));
    const Times t = time(b, launches, [&] {
      for (int j = 0; j < launches; ++j) {
        must(b.library.run(plan, operands_of(b, plain, plan.request, j), b.workspace, b.stream));
      }
    });
    if (i == 0) result.first = t;
    if (i == 0 || t.median < result.best.median) result.best = t;
  }
  must(b.library.select(plan, operands_of(b, plain, plan.request, 0), 0));
  return result;
}

// Zero where the path cannot do the product.
Times measure_own(Bench& b, const Weight& w, std::int64_t m, CudaPath path, int launches,
                  Overlap overlap) {
  const auto plan = plan_for(path, request_of(w, m), b.facts);
  if (!plan.ok()) return {};
  return time(b, launches, [&] {
    for (int j = 0; j < launches; ++j) {
      must(b.gemm.run(*plan, operands_of(b, w, plan->request, j), b.workspace, b.stream, overlap));
    }
  });
}

void measure_shape(Bench& b, const Weight& w, std::int64_t m) {
  const int launches = m > 256 ? 4 : launches_of(b, w);
  const double floor = static_cast<double>(w.n * w.k * 2) / b.read_bytes_per_us;
  const Times rows = measure_own(b, w, m, CudaPath::kRows, launches, Overlap::kYes);
  const Times alone = measure_own(b, w, m, CudaPath::kRows, launches, Overlap::kNo);
  const Times split = measure_own(b, w, m, CudaPath::kSplit, launches, Overlap::kYes);
  const LibraryTimes library = measure_library(b, w, m, launches);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(w.n * w.k);
  std::printf(
      "{\"what\":\"shape\",\"weight\":\"%s\",\"n\":%ld,\"k\":%ld,\"m\":%ld,\"floor_us\":%.2f,"
      "\"rows_us\":%.2f,\"rows_low\":%.2f,\"rows_high\":%.2f,\"rows_no_overlap_us\":%.2f,"
      "\"split_us\":%.2f,\"split_low\":%.2f,\"split_high\":%.2f,"
      "\"library_first_us\":%.2f,\"library_best_us\":%.2f,\"library_best_tflop_per_s\":%.1f}\n",
      w.name, w.n, w.k, m, floor, rows.median, rows.low, rows.high, alone.median, split.median,
      split.low, split.high, library.first.median, library.best.median,
      flops / library.best.median / 1e6);
  std::fprintf(stderr,
               "%-8s m %5ld floor %7.2f  rows %7.2f (%.2f; no overlap %7.2f)  split %7.2f (%.2f)  "
               "library best %8.2f (%.2f) first %8.2f  %6.1f TFLOP/s\n",
               w.name, m, floor, rows.median, rows.median / floor, alone.median, split.median,
               split.median / floor, library.best.median, library.best.median / floor,
               library.first.median, flops / library.best.median / 1e6);
}

// ---- a decode step's products ------------------------------------------------------------------

constexpr std::int64_t kHidden = 4096, kQkv = 6144, kInner = 14336, kVocabulary = 128256;
constexpr int kLayers = 32;

// Enqueues them all; returns the bytes of weights. Attention's and the norms' places are empty: the
// next product reads what the one before wrote.
std::int64_t chain(Bench& b, std::int64_t m,
                   const std::function<void(const CudaRequest&, const CudaOperands&)>& run) {
  __nv_bfloat16* weights = b.pool;
  auto* qkv = reinterpret_cast<__nv_bfloat16*>(b.out);
  __nv_bfloat16* residual = b.hidden;
  __nv_bfloat16* inner = b.other;
  const auto product = [&](CudaRequest r, CudaOperands o) {
    o.w = weights;
    o.w_stride = r.k;
    r.share = r.residual ? CudaShare::kMore : CudaShare::kLess;
    weights += (r.silu_mul ? 2 * r.n : r.n) * r.k;
    run(r, o);
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    product({.m = m, .n = kQkv, .k = kHidden},
            {.x = residual, .out = qkv, .x_stride = kHidden, .out_stride = kQkv});
    product({.m = m, .n = kHidden, .k = kHidden, .residual = true}, {.x = qkv,
                                                                     .residual = residual,
                                                                     .out = residual,
                                                                     .x_stride = kQkv,
                                                                     .residual_stride = kHidden,
                                                                     .out_stride = kHidden});
    product({.m = m, .n = kInner, .k = kHidden, .silu_mul = true},
            {.x = residual, .out = inner, .x_stride = kHidden, .out_stride = kInner});
    product({.m = m, .n = kHidden, .k = kInner, .residual = true}, {.x = inner,
                                                                    .residual = residual,
                                                                    .out = residual,
                                                                    .x_stride = kInner,
                                                                    .residual_stride = kHidden,
                                                                    .out_stride = kHidden});
  }
  product({.m = m, .n = kVocabulary, .k = kHidden, .out = CudaOut::kF32},
          {.x = residual, .out = b.out, .x_stride = kHidden, .out_stride = kVocabulary});
  return (weights - b.pool) * 2;
}

void report_chain(const Bench& b, const char* way, std::int64_t m, const Times& t,
                  std::int64_t bytes) {
  const double floor = static_cast<double>(bytes) / b.read_bytes_per_us;
  std::printf(
      "{\"what\":\"chain\",\"way\":\"%s\",\"m\":%ld,\"bytes\":%ld,\"us\":%.1f,\"us_low\":%.1f,"
      "\"us_high\":%.1f,\"floor_us\":%.1f,\"ratio\":%.4f}\n",
      way, m, bytes, t.median, t.low, t.high, floor, t.median / floor);
  std::fprintf(stderr, "chain %-15s m %3ld %8.1f us [%8.1f %8.1f] floor %8.1f ratio %.3f\n", way, m,
               t.median, t.low, t.high, floor, t.median / floor);
}

void measure_chain(Bench& b, std::int64_t m) {
  struct Way {
    const char* name;
    bool chosen;  // by choose(), instead of path
    CudaPath path;
    Overlap overlap;
  };
  const Way ways[] = {{"chosen", true, CudaPath::kLibrary, Overlap::kYes},
                      {"rows", false, CudaPath::kRows, Overlap::kYes},
                      {"rows, no overlap", false, CudaPath::kRows, Overlap::kNo},
                      {"split", false, CudaPath::kSplit, Overlap::kYes},
                      {"library", false, CudaPath::kLibrary, Overlap::kNo}};
  for (const Way& way : ways) {
    if (!plan_for(way.path, {.m = m, .n = kHidden, .k = kHidden}, b.facts).ok()) continue;
    std::int64_t bytes = 0;
    const Times t = time(b, 1, [&] {
      bytes = chain(b, m, [&](const CudaRequest& r, const CudaOperands& o) {
        const CudaPlan plan =
            must(way.chosen ? choose(r, b.facts) : plan_for(way.path, r, b.facts));
        must(b.gemm.run(plan, o, b.workspace, b.stream, way.overlap));
      });
    });
    report_chain(b, way.name, m, t, bytes);
  }
}

int run(const Options& options) {
  Bench b = make_bench(options);
  const auto wanted = [&](const char* what) {
    return options.what.find(what) != std::string::npos;
  };
  measure_read(b);
  if (wanted("weights")) measure_weights(b);
  if (wanted("peak")) measure_peak(b);
  if (wanted("chain")) {
    for (const std::int64_t m : {1, 8, 16, 32, 64, 128}) measure_chain(b, m);
  }
  if (wanted("shapes")) {
    const Weight weights[] = {{"qkv", kQkv, kHidden, false, false},
                              {"o", kHidden, kHidden, false, false},
                              {"gate_up", 2 * kInner, kHidden, false, true},
                              {"down", kHidden, kInner, false, false},
                              {"lm_head", kVocabulary, kHidden, true, false}};
    for (const Weight& w : weights) {
      for (const std::int64_t m : options.rows) measure_shape(b, w, m);
    }
  }
  must(cudaDeviceSynchronize(), "end");
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::gemm

int main(int argc, char** argv) {
  return causeway::kernels::gemm::run(causeway::kernels::gemm::parse(argc, argv));
}
