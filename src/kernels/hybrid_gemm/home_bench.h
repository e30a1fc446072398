// HybridGEMM beside its limits and its rivals, all measured in one run on one slice:
//
//   floor      every byte of W read once by a kernel, at home
//   copy       the copy engine bringing W into HBM (what rivals that stage cannot beat)
//   resident   cuBLASLt with W in HBM
//   in-place   cuBLASLt reading W at home
//   copy+gemm  copy, then cuBLASLt
//   chunked    16 column chunks, double-buffered copies overlapped with cuBLASLt
//   symmetric  ours, α = 1; symmetric-1: without clusters
//   ring       ours, the columns of α symmetric and the others through the ring
//
// Every result is compared with the resident product before it is timed. Built with CUDA only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::hybrid_gemm {

// Where W lies.
enum class WeightHome { kHost, kPeer };

struct HomeBenchOptions {
  WeightHome home = WeightHome::kHost;
  std::int64_t n = 16384;
  std::int64_t k = 4096;
  std::vector<std::int64_t> rows = {1, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 10240};
  std::vector<std::int64_t> alpha_rows = {1024, 4096, 10240};  // those of `rows` with a sweep of α
  std::vector<double> alphas = {0.125, 0.25, 0.5, 0.75};
  std::int64_t runs = 7;  // of each figure; the median counts
};

struct HomeBenchRow {
  std::string way;
  std::int64_t m = 0;  // 0: a row about W alone (floor, copy)
  double alpha = 0;
  double median_ms = 0, lowest_ms = 0, highest_ms = 0;
  double error = 0;  // ‖O − resident O‖ ÷ ‖resident O‖
  bool right = true;
  int cluster_ctas = 0;  // of ours
  int symmetric_ctas = 0;
  Bytes link_bytes;  // what crosses the link
};

// Called with every row as it is measured.
using HomeBenchProgress = std::function<void(const HomeBenchRow& row)>;

// Runs on the slice whose context is current and whose stream is `stream`: `processors` SMs of GPU
// `gpu`. kUnavailable for kPeer without a second GPU that it can read; kInvalidArgument for sizes
// that no kernel takes; kResourceExhausted without memory (about 2 · m · n + 2 · n · k elements).
Result<std::vector<HomeBenchRow>> run_home_benchmarks(const HomeBenchOptions& options, int gpu,
                                                      int processors, CudaStream stream,
                                                      const HomeBenchProgress& progress);

}  // namespace causeway::kernels::hybrid_gemm
