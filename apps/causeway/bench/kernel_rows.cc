#include "bench/kernel_rows.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace causeway::app {

using kernels::bench::KernelBenchRow;

void print_row_progress(const std::string& name, std::int64_t done, std::int64_t total) {
  fmt::print(stderr, "[{}/{}] {} …\n", done + 1, total, name);
}

void print_kernel_rows(const std::vector<KernelBenchRow>& rows) {
  fmt::print("{:<24} {:<30} {:>10} {:>10} {:<8} {:>6} {:>6} {:>7} {:>5}  {}\n", "kernel", "shape",
             "median", "limit", "unit", "ratio", "wanted", "spread", "runs", "the limit is");
  for (const KernelBenchRow& row : rows) {
    fmt::print("{:<24} {:<30} {:>10.1f} {:>10.1f} {:<8} {:>6.2f} {:>6} {:>6.0f}% {:>5} ", row.name,
               row.shape, row.measured, row.limit, row.unit, row.ratio,
               row.ratio_wanted > 0 ? fmt::format("{:.2f}", row.ratio_wanted) : "",
               100 * row.spread, row.runs);
    fmt::print(" {}", row.limit_name);
    for (const auto& [name, value] : row.further) fmt::print("; {} {:.1f}", name, value);
    fmt::print("\n");
  }
}

nlohmann::ordered_json kernel_rows_json(const std::vector<KernelBenchRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const KernelBenchRow& row : rows) {
    list.push_back({{"name", row.name},
                    {"shape", row.shape},
                    {"measured", row.measured},
                    {"limit", row.limit},
                    {"unit", row.unit},
                    {"ratio", row.ratio},
                    {"ratio_wanted", row.ratio_wanted},
                    {"spread", row.spread},
                    {"runs", row.runs},
                    {"limit_name", row.limit_name}});
    if (row.per_token > 0) list.back()["tokens_per_s"] = row.measured / row.per_token;
    for (const auto& [name, value] : row.further) list.back()[name] = value;
  }
  return list;
}

}  // namespace causeway::app
