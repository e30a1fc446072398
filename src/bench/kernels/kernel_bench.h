// The benchmarks behind `causeway bench kernels`: each kernel beside the limit that binds it, both
// measured in the same run and in turns, so that a busy neighbour slows both alike.
//
//   run 0: limit, kernel │ run 1: limit, kernel │ …      measured, limit: medians; ratio of the two
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/host_memory.h"

namespace causeway::kernels::bench {

// What else was measured in the same run; the ratio is not to it.
struct FurtherLimit {
  std::string name;
  double value = 0;  // median, in the row's unit
};

struct KernelBenchRow {
  std::string name;
  std::string shape;
  double measured = 0;  // median, in `unit`
  double limit = 0;     // median of the limit, in `unit`
  double ratio = 0;     // median of measured ÷ limit, run by run
  std::string unit;     // "GB/s" or "GFLOP/s" (10^9)
  double spread = 0;    // (largest - smallest) ÷ median, of measured
  std::int64_t runs = 0;
  std::string limit_name;  // what the limit is
  std::vector<FurtherLimit> further = {};
  double ratio_wanted = 0;  // the ratio that the project demands; 0: none
  double per_token = 0;     // what a token takes of `unit`, without "/s"; 0: nothing of tokens
};

struct KernelBenchOptions {
  Bytes read_bytes = gib(2);  // far larger than the caches
  std::int64_t runs = 7;      // ≥ 5
};

// Called before each row with what is measured next, of `total` rows.
using BenchProgress =
    std::function<void(const std::string& name, std::int64_t done, std::int64_t total)>;

// A figure of one run and its limit, per second.
struct BenchSample {
  double measured = 0;
  double limit = 0;
  std::vector<double> further = {};  // as many as the row's, in that order
};

// Fills all but the names and the wish of `row` from samples; `scale` to the row's unit.
void summarise(const std::vector<BenchSample>& samples, double scale, KernelBenchRow& row);

// kResourceExhausted when the machine has no room for the buffers. Uses all threads; minutes.
Result<std::vector<KernelBenchRow>> run_kernel_benchmarks(const KernelBenchOptions& options,
                                                          device::HostMemory& memory,
                                                          const Clock& clock,
                                                          const BenchProgress& progress);

}  // namespace causeway::kernels::bench
