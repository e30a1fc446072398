#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/commands/cpu_variants.h"
#include "bench/commands/measuring.h"
#include "bench/explain_model.h"
#include "bench/kernel_rows.h"
#include "bench/model/forward_bench.h"
#include "bench/model_on_gpu.h"
#include "commands/json_file.h"
#include "commands/model_config.h"
#include "device/host_memory.h"

namespace causeway::app {
namespace {

class BenchModel final : public Command {
 public:
  BenchModel(Options& parent, const Clock& clock)
      : Command(parent, "model", "Time a model's prefill and decode beside what binds them"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--model-config", config_file_, "config.json of the model; only shapes count")
        .existing_file();
    app.add_flag("--random-weights", random_weights_, "make weights on the spot (the default)");
    app.add_option("--device", device_, "device: cuda or cpu")
        .one_of({"cuda", "cpu"})
        .show_default();
    app.add_option("--gpu", gpu_.gpu, "number of the GPU").non_negative();
    app.add_option("--runs", gpu_.runs, "runs for each figure, of which the median is reported")
        .range(5, 1000)
        .show_default();
    app.add_choice("--cpu", widest_, kCpuVariants, kCpuVariantsHelp).show_default("avx512_bf16");
    app.add_option("--batch", gpu_.decode_batches,
                   "sequences in a decode step (default on the CPU: 1)")
        .range(1, 4096)
        .delimiter(',')
        .show_default();
    app.add_option("--context", gpu_.decode_context, "tokens of context before the decoded one")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--prefill", gpu_.prefill_tokens, "tokens of the prompt")
        .range(1, 1 << 20)
        .show_default();
    app.add_flag("--no-graphs", no_graphs_, "launch every kernel by itself (cuda)");
    app.add_flag(
        "--explain", explain_,
        "measure nothing, and print the kernels of the steps on a GPU (which is not needed)");
    app.add_option("--sms", sms_, "SMs that --explain assumes").range(1, 1024).show_default();
    app.add_option("--json", json_file_, "also write the rows to this file ('-': standard output)");
  }

  Status run() override {
    // Not by CLI11, which knows nothing of the environment and the file.
    if (config_file_.empty()) return invalid_argument("--model-config is required: a config.json");
    CAUSEWAY_ASSIGN(gpu_.config, read_model_config(config_file_));
    if (explain_) return explain();
    gpu_.graphs = !no_graphs_;
    CAUSEWAY_ASSIGN(const auto rows, device_ == "cpu"
                                         ? on_cpu()
                                         : bench_model_on_gpu(gpu_, clock_, print_row_progress));
    print_kernel_rows(rows);
    return write_json(json_file_, kernel_rows_json(rows));
  }

 private:
  Status explain() const {
    CAUSEWAY_ASSIGN(const std::string text, explain_model({.config = gpu_.config,
                                                           .sm_count = sms_,
                                                           .decode_batches = gpu_.decode_batches,
                                                           .decode_context = gpu_.decode_context,
                                                           .prefill_tokens = gpu_.prefill_tokens}));
    fmt::print("{}", text);
    return {};
  }

  Result<std::vector<kernels::bench::KernelBenchRow>> on_cpu() {
    kernels::limit_variants(widest_);
    device::HostMemory memory;
    model::ForwardBenchOptions bench;
    bench.config = gpu_.config;
    bench.runs = gpu_.runs;
    if (options().count("--batch") > 0) bench.decode_batches = gpu_.decode_batches;
    bench.decode_context = gpu_.decode_context;
    bench.prefill_tokens = gpu_.prefill_tokens;
    return model::run_forward_benchmarks(bench, memory, clock_, print_row_progress);
  }

  const Clock& clock_;
  std::string config_file_;
  bool random_weights_ = true;
  std::string device_ = "cuda";
  kernels::Variant widest_ = kernels::Variant::kAvx512Bf16;
  GpuBenchSettings gpu_{.config = {}, .decode_batches = {1, 8, 32, 128}};
  bool no_graphs_ = false;
  bool explain_ = false;
  int sms_ = 132;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_model(Options& parent, const Clock& clock) {
  return std::make_unique<BenchModel>(parent, clock);
}

}  // namespace causeway::app
