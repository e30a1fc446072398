// `causeway profile`: measures what the ways of a product at home take on this machine, for the
// planner (kernels/home_gemm/profile.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/home_slices.h"
#include "kernels/home_gemm/profile.h"

namespace causeway::app {

struct HomeProfileSettings {
  std::vector<kernels::home_gemm::HomeBenchShape> shapes;
  std::vector<std::int64_t> rows;
  std::vector<int> processors;  // slices of more SMs than the GPU has are all of it
  std::int64_t runs = 5;
  Nanos beside = seconds(1);  // how long the product and a neighbour run beside each other

  static HomeProfileSettings whole();
  static HomeProfileSettings quick();  // within a minute
};

// What has been measured, of how many slices × shapes, and its last row.
using HomeProfileProgress =
    std::function<void(std::size_t done, std::size_t all, const std::string& what)>;

// The GPU's entry for a home. Errors: those of run_home_benchmarks(); kCorrupt when a way gave a
// wrong result, naming it.
Result<kernels::home_gemm::MachineProfile> measure_home_profile(
    HomeSlices& slices, kernels::home_gemm::Home home, const HomeProfileSettings& settings,
    const HomeProfileProgress& progress);

// The entries of `old` with those of `measured` in place of the same GPU's and home's.
std::vector<kernels::home_gemm::MachineProfile> merged(
    std::vector<kernels::home_gemm::MachineProfile> old,
    const std::vector<kernels::home_gemm::MachineProfile>& measured);

// A row as a point; nothing of a row that is none (floor, copy).
std::optional<kernels::home_gemm::Point> point_of(const kernels::home_gemm::HomeBenchRow& row,
                                                  int processors);

}  // namespace causeway::app
