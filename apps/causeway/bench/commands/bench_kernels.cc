#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/commands/cpu_variants.h"
#include "bench/commands/measuring.h"
#include "bench/kernel_rows.h"
#include "bench/kernels/kernel_bench.h"
#include "bench/model/forward_bench.h"
#include "commands/json_file.h"
#include "device/host_memory.h"

namespace causeway::app {
namespace {

using kernels::bench::KernelBenchRow;

class BenchKernels final : public Command {
 public:
  BenchKernels(Options& parent, const Clock& clock)
      : Command(parent, "kernels", "Measure the CPU kernels and a 1B model beside their limits"),
        clock_(clock) {
    options()
        .add_option("--runs", runs_, "runs for each figure, of which the median is reported")
        .range(5, 1000)
        .show_default();
    options().add_flag("--model-only", model_only_, "only decode and prefill of the 1B model");
    options()
        .add_choice("--cpu", widest_, kCpuVariants, kCpuVariantsHelp)
        .show_default("avx512_bf16");
    options().add_option("--json", json_file_,
                         "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    kernels::limit_variants(widest_);
    device::HostMemory memory;
    std::vector<KernelBenchRow> rows;
    if (!model_only_) {
      CAUSEWAY_ASSIGN(
          rows, kernels::bench::run_kernel_benchmarks({.read_bytes = gib(2), .runs = runs_}, memory,
                                                      clock_, print_row_progress));
    }
    model::ForwardBenchOptions forward;
    forward.runs = runs_;
    CAUSEWAY_ASSIGN(const auto model_rows,
                    model::run_forward_benchmarks(forward, memory, clock_, print_row_progress));
    rows.insert(rows.end(), model_rows.begin(), model_rows.end());
    print_kernel_rows(rows);
    return write_json(json_file_, kernel_rows_json(rows));
  }

 private:
  const Clock& clock_;
  std::int64_t runs_ = 7;
  bool model_only_ = false;
  kernels::Variant widest_ = kernels::Variant::kAvx512Bf16;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_kernels(Options& parent, const Clock& clock) {
  return std::make_unique<BenchKernels>(parent, clock);
}

}  // namespace causeway::app
