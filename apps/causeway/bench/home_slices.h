// Slices of one GPU on which products whose weight is at home are measured, one slice at a time or
// several at once: what `causeway bench gemm` and `causeway profile` run on.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/kernels/home_bench.h"

namespace causeway::app {

// What one of several slices does again and again.
struct SliceLoadSpec {
  int processors = 16;
  bool reads_hbm = false;  // a neighbour that decodes: it reads `read_bytes` of HBM; else a product
  Bytes read_bytes = gib(1);
  kernels::home_gemm::HomeBenchOptions product = {};
  std::int64_t m = 1;
  std::optional<kernels::home_gemm::Way> way = {};  // none: the planner's
};

struct SliceLoadResult {
  std::string name;  // the way, or "neighbour"
  int processors = 0;
  double median_ms = 0;         // of a run
  double link_bytes_per_s = 0;  // over the whole time
  std::int64_t runs = 0;
};

class HomeSlices {
 public:
  // The driver and one GPU. kUnavailable, with the reason, without one; kUnsupported in a build
  // without CUDA. The clock outlives it.
  static Result<std::unique_ptr<HomeSlices>> open(int gpu, const Clock& clock);
  virtual ~HomeSlices() = default;

  virtual std::string gpu_name() const = 0;  // "NVIDIA H200"
  virtual int processors() const = 0;        // SMs of the GPU
  virtual bool has_peer() const = 0;         // another GPU whose memory this one reaches

  // One slice: as many SMs as the GPU has, or more, are all of it; fewer are a green context.
  // `row` is called with the SMs that the slice has and each row as it is measured.
  using Row = std::function<void(int processors, const kernels::home_gemm::HomeBenchRow& row)>;
  virtual Status measure(int processors, const kernels::home_gemm::HomeBenchOptions& options,
                         const Row& row) = 0;

  // All of them at once, a thread each, for `length` and at least five runs of each. Blocks.
  virtual Result<std::vector<SliceLoadResult>> together(std::span<const SliceLoadSpec> specs,
                                                        Nanos length) = 0;
};

}  // namespace causeway::app
