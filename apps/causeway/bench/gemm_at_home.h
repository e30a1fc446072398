// `causeway bench gemm`: products whose weight lies at home, on slices of a GPU of this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernels/hybrid_gemm/home_bench.h"

namespace causeway::app {

struct GemmAtHomeSettings {
  kernels::hybrid_gemm::HomeBenchOptions bench;
  int gpu = 0;
  std::vector<int> processors = {132, 56, 32, 16};  // SMs of each slice, one after the other
};

// A row of one slice; `processors` are those that the slice has.
using SliceRow = std::function<void(int processors, const kernels::hybrid_gemm::HomeBenchRow& row)>;

// Calls `row` with every row as it is measured. A slice of at least as many SMs as the GPU has is
// the whole GPU; smaller ones are green contexts. kUnavailable, with the reason, without a GPU (or
// a peer); kUnsupported in a build without CUDA.
Status bench_gemm_at_home(const GemmAtHomeSettings& settings, const Clock& clock,
                          const SliceRow& row);

}  // namespace causeway::app
