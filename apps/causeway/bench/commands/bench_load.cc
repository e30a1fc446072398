#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/load_bench.h"
#include "commands/json_file.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class BenchLoad final : public Command {
 public:
  BenchLoad(Options& parent, const Clock& clock)
      : Command(parent, "load",
                "Load a model from files: a server's start, and beside a model that decodes"),
        clock_(clock) {
    auto& app = options();
    slice_.declare(app, "config.json of the model; only shapes count");
    app.add_option("--disk-dir", disk_dir_,
                   "folder in which its files are written and kept; default: a temporary one");
    app.add_option("--starts", settings_.starts,
                   "times that `causeway serve` is started and timed to its first token; 0: none")
        .range(0, 1000)
        .show_default();
    app.add_option("--loads", settings_.loads, "loads while another model decodes; 0: none")
        .range(0, 1000)
        .show_default();
    app.add_option("--tokens", settings_.tokens_alone,
                   "tokens that the other model decodes in all while nothing is loaded")
        .range(2, 1'000'000)
        .show_default();
    app.add_option("--batch", settings_.decode.batch, "sequences that the other model decodes")
        .range(1, 1024)
        .show_default();
    app.add_option("--context", settings_.decode.context,
                   "tokens of each of these sequences' prompts")
        .range(1, 65'536)
        .show_default();
    app.add_option("--output", settings_.decode.output,
                   "most tokens of an answer of the other model")
        .range(100, 1'000'000)
        .show_default();
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(auto configs, slice_.configs());
    if (configs.size() > 1) return invalid_argument("--model-config: one is enough here");
    settings_.config = std::move(configs.front());
    slice_.apply(settings_.slice);
    settings_.disk_dir = disk_dir_;
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto rows, bench::bench_load(settings_, clock_));
    bench::print_figures(rows);
    return write_json(json_file_, bench::load_json(rows));
  }

 private:
  const Clock& clock_;
  SliceOptions slice_;
  bench::LoadBenchSettings settings_;
  std::string disk_dir_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_load(Options& parent, const Clock& clock) {
  return std::make_unique<BenchLoad>(parent, clock);
}

}  // namespace causeway::app
