#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/prefix_bench.h"
#include "commands/json_file.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class BenchPrefix final : public Command {
 public:
  BenchPrefix(Options& parent, const Clock& clock)
      : Command(parent, "prefix",
                "Measure the first token of a prompt whose prefix is computed, in HBM or in host "
                "memory"),
        clock_(clock) {
    auto& app = options();
    auto& schedule = settings_.slice.engine.core.schedule;
    schedule.tokens_per_step_max = 8192;
    slice_.declare(app, "config.json of the model; only shapes count");
    app.add_option("--prefix-len", settings_.prefix, "tokens that prompts have in common")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--rest-len", settings_.rest, "further tokens of each prompt")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--runs", settings_.runs, "runs for each figure").range(1, 1000).show_default();
    app.add_option("--max-num-batched-tokens", schedule.tokens_per_step_max,
                   "tokens in a step at most")
        .range(1, 65'535)
        .show_default();
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(settings_.config, slice_.config());
    slice_.apply(settings_.slice);
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto report, bench::bench_prefix(settings_, clock_));
    const auto figures = bench::prefix_figures(report);
    bench::print_figures(figures);
    return write_json(json_file_, {{"bench", "prefix"},
                                   {"host_tokens_found", report.found},
                                   {"rows", bench::figures_json(figures)}});
  }

 private:
  const Clock& clock_;
  SliceOptions slice_;
  bench::PrefixBenchSettings settings_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_prefix(Options& parent, const Clock& clock) {
  return std::make_unique<BenchPrefix>(parent, clock);
}

}  // namespace causeway::app
