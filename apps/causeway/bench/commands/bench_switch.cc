#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/switch_bench.h"
#include "commands/json_file.h"
#include "commands/print_step.h"
#include "commands/step_starts.h"

namespace causeway::app {
namespace {

class BenchSwitch final : public Command {
 public:
  BenchSwitch(Options& parent, const Clock& clock)
      : Command(parent, "switch",
                "Switch between models of random weights that a slice cannot cache all at once"),
        clock_(clock) {
    auto& app = options();
    settings_.slice.engine.core.schedule.tokens_per_step_max = 8192;
    slice_.declare(app, "config.json of the models; only shapes count; several: models in turn");
    app.add_option("--models", settings_.models,
                   "number of models; at least one of each shape is made")
        .range(3, 1000)
        .show_default();
    app.add_option("--rounds", settings_.rounds, "repetitions of each figure")
        .range(1, 1000)
        .show_default();
    app.add_option("--prompt", settings_.prompt, "tokens of a prompt")
        .range(1, 8192)
        .show_default();
    app.add_option("--output", settings_.output, "tokens of an answer")
        .range(3, 1024)
        .show_default();
    declare_neighbour();
    app.add_choice(
           "--start", settings_.start, kStepStarts,
           "when the first step of a model starts whose weights are still coming: just-in-time, "
           "all-cached (after a full reload) or at-once (holding the GPU while it waits)")
        .show_default("just-in-time");
    app.add_flag("--baselines", settings_.baselines,
                 "also measure the other ways to start, in the same run");
    app.add_flag("--from-disk", settings_.from_disk,
                 "also measure a model that is loaded from files, with and without the page cache");
    app.add_option("--disk-dir", disk_dir_,
                   "folder in which these files are written and kept; default: a temporary one");
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(settings_.configs, slice_.configs());
    slice_.apply(settings_.slice);
    settings_.disk_dir = disk_dir_;
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto report, bench::bench_switch(settings_, clock_));
    bench::print_figures(report.rows);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  void declare_neighbour() {
    auto& app = options();
    app.add_option("--neighbour-batch", settings_.neighbour.batch,
                   "sequences that another model decodes meanwhile; 0: there is no other model")
        .range(0, 1024)
        .show_default();
    app.add_option("--neighbour-context", settings_.neighbour.context,
                   "tokens of each of these sequences' prompts")
        .range(1, 65'536)
        .show_default();
    app.add_option("--neighbour-output", settings_.neighbour.output,
                   "most tokens that each of these sequences decodes")
        .range(1, 1'000'000)
        .show_default();
  }

  const Clock& clock_;
  SliceOptions slice_;
  bench::SwitchSettings settings_;
  std::string disk_dir_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_switch(Options& parent, const Clock& clock) {
  return std::make_unique<BenchSwitch>(parent, clock);
}

}  // namespace causeway::app
