// Products whose weight is at home beside their limits and rivals, measured in one run on a slice:
//
//   floor      every byte of W read once by a kernel, at home
//   copy       the copy engine bringing W into HBM (what stages cannot beat)
//   resident   cuBLASLt with W in HBM
//   copy+gemm  copy, then cuBLASLt
//   chunked    16 equal column chunks, double-buffered copies overlapped with cuBLASLt
//   in-place, few-rows, symmetric, ring, staged    the ways of home_gemm.h; with a sweep of α,
//              ring at other α, and symmetric-1: without clusters
//   planned    the way that the planner chooses, as `note` says
//
// Every result is compared with the resident product before it is timed. What a product is to be
// held against is the larger of copy and resident. Built with CUDA only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"
#include "kernels/home_gemm/profile.h"
#include "kernels/home_gemm/way.h"

namespace causeway::kernels::home_gemm {

// The product [m × k] · [n × k]ᵀ in bf16, and what the planner is told.
struct HomeBenchShape {
  std::int64_t n = 16384;
  std::int64_t k = 4096;
};

struct HomeBenchOptions {
  Home home = Home::kHost;
  HomeBenchShape shape = {};
  std::vector<std::int64_t> rows = {1, 16, 64, 256, 512, 1024, 2048, 4096, 8192, 10240};
  std::vector<std::int64_t> alpha_rows = {1024, 4096, 10240};  // those of `rows` with a sweep of α
  std::vector<double> alphas = {0.125, 0.25, 0.5, 0.75};
  std::int64_t runs = 7;               // of each figure; the median counts
  std::vector<std::string> ways = {};  // rows about a product that are wanted; empty: all
  Bytes scratch = {};                  // for pieces of W and for the ring; zero: all of W
  bool copies = true;                  // the planner may stage
  const Profile* profile = nullptr;    // the planner's; null: what is built in
};

struct HomeBenchRow {
  std::string way;
  std::string note;  // planned: which way, and how many pieces
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t m = 0;  // 0: a row about W alone (floor, copy)
  double alpha = 0;
  double median_ms = 0, lowest_ms = 0, highest_ms = 0;
  double limit_ms = 0;  // the larger of W copied, in turns with it, and resident; 0: not measured
  double error = 0;     // ‖O − resident O‖ ÷ ‖resident O‖
  bool right = true;
  int cluster_ctas = 0;  // of HybridGEMM
  int symmetric_ctas = 0;
  Bytes link_bytes, hbm_bytes;  // by the traffic model
};

// Called with every row as it is measured.
using HomeBenchProgress = std::function<void(const HomeBenchRow& row)>;

// Where a benchmark runs: the context is current, `stream` is its, with so many SMs of the GPU.
struct HomeBenchPlace {
  int gpu = 0;
  int processors = 132;
  CudaStream stream = nullptr;
};

// kUnavailable for kPeer without a second GPU that it can read; kInvalidArgument for sizes that no
// kernel takes and for a way that there is not; kResourceExhausted without memory (about
// 2 · m · n + 3 · n · k elements).
Result<std::vector<HomeBenchRow>> run_home_benchmarks(const HomeBenchOptions& options,
                                                      const HomeBenchPlace& place,
                                                      const HomeBenchProgress& progress);

// Work that a slice repeats, so that one can see what slices do to each other. Used by one thread,
// in whose context it was made.
class SliceLoad {
 public:
  virtual ~SliceLoad() = default;
  // Does it once and waits for it: its time on the GPU.
  virtual Result<Nanos> run() = 0;
  virtual Bytes link_bytes() const = 0;  // of one run
  virtual std::string name() const = 0;
};

// One product at home with m rows, with a weight of its own, by `way` or, of none, as planned.
// Errors: as run_home_benchmarks(), and kUnsupported when the way cannot do it.
Result<std::unique_ptr<SliceLoad>> make_product_load(const HomeBenchOptions& options,
                                                     std::int64_t m, std::optional<Way> way,
                                                     const HomeBenchPlace& place);
// Reads `bytes` of HBM, as a step that decodes a few sequences does.
Result<std::unique_ptr<SliceLoad>> make_read_load(Bytes bytes, const HomeBenchPlace& place);

}  // namespace causeway::kernels::home_gemm
