#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/switch_bench.h"
#include "commands/command.h"
#include "commands/json_file.h"
#include "commands/link_settings.h"
#include "commands/model_config.h"

namespace causeway::app {
namespace {

class BenchSwitch final : public Command {
 public:
  BenchSwitch(CLI::App& parent, const Clock& clock)
      : Command(parent, "switch",
                "Switch between models of random weights that a slice cannot cache all at once"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--model-config", config_file_, "config.json of each model; only shapes count")
        ->check(CLI::ExistingFile);
    app.add_option("--device", settings_.device, "where: cpu or cuda")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--gpu", settings_.gpu, "which GPU")->check(CLI::NonNegativeNumber);
    app.add_option("--modelled-link", settings_.modelled_link,
                   "on the CPU: bytes per second that a modelled link gives; 0: none is modelled")
        ->check(CLI::Range(0.0, 1e12));
    app.add_option("--modelled-links", settings_.modelled_links,
                   "on the CPU: devices with a modelled link each; see --links")
        ->check(CLI::Range(1, 8))
        ->capture_default_str();
    links_.declare(app, "Links");
    app.add_option("--rounds", settings_.rounds, "repetitions of each figure")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--prompt", settings_.prompt, "tokens of a prompt")
        ->check(CLI::Range(1, 8192))
        ->capture_default_str();
    app.add_option("--neighbour-batch", settings_.neighbour_batch,
                   "sequences that another model decodes meanwhile; 0: without")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--neighbour-context", settings_.neighbour_context, "tokens of their prompts")
        ->check(CLI::Range(1, 65'536))
        ->capture_default_str();
    app.add_option("--kv-frame-bytes", frame_, "size of a KV frame; small for tiny models")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--start", start_,
                   "when a step of a model on its way starts: just-in-time, all-cached (a full "
                   "reload before computing) or at-once (it holds the GPU while it waits)")
        ->check(CLI::IsMember({"just-in-time", "all-cached", "at-once"}))
        ->capture_default_str();
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    if (config_file_.empty()) return invalid_argument("--model-config is required: a config.json");
    CAUSEWAY_ASSIGN(settings_.config, read_model_config(config_file_));
    settings_.links = links_.options();
    settings_.frame = Bytes(static_cast<std::int64_t>(frame_));
    if (start_ == "all-cached") settings_.start = engine::StepStart::kAllCached;
    if (start_ == "at-once") settings_.start = engine::StepStart::kAtOnce;
    settings_.progress = [](const std::string& what) { fmt::print(stderr, "{} …\n", what); };
    CAUSEWAY_ASSIGN(const auto report, bench::bench_switch(settings_, clock_));
    bench::print_report(report);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  const Clock& clock_;
  std::string config_file_;
  std::uint64_t frame_ = std::uint64_t{4} << 20;
  std::string start_ = "just-in-time";
  bench::SwitchSettings settings_;
  LinkSettings links_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_switch(CLI::App& parent, const Clock& clock) {
  return std::make_unique<BenchSwitch>(parent, clock);
}

}  // namespace causeway::app
