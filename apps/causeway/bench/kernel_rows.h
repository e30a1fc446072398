// Rows of figures beside their limits, as a table for people and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/kernels/kernel_bench.h"

namespace causeway::app {

// To standard output.
// Told before the row `name` is measured.
void print_row_progress(const std::string& name, std::int64_t done, std::int64_t total);
void print_kernel_rows(const std::vector<kernels::bench::KernelBenchRow>& rows);
nlohmann::ordered_json kernel_rows_json(const std::vector<kernels::bench::KernelBenchRow>& rows);

}  // namespace causeway::app
