#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/catalogue_bench.h"
#include "commands/command.h"
#include "commands/json_file.h"
#include "commands/link_settings.h"
#include "commands/model_config.h"

namespace causeway::app {
namespace {

class BenchCatalogue final : public Command {
 public:
  BenchCatalogue(CLI::App& parent, const Clock& clock)
      : Command(parent, "catalogue",
                "Serve many models of random weights, some asked for often, most seldom (Zipf)"),
        clock_(clock) {
    auto& app = options();
    app.add_option("--model-config", config_file_,
                   "config.json of the largest model; only shapes count, others have fewer layers")
        ->check(CLI::ExistingFile);
    app.add_option("--device", settings_.device, "where: cpu or cuda")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--gpu", settings_.gpu, "which GPU")->check(CLI::NonNegativeNumber);
    links_.declare(app, "Links");
    app.add_option("--modelled-link", settings_.modelled_link,
                   "on the CPU: bytes per second that a modelled link gives; 0: none is modelled")
        ->check(CLI::Range(0.0, 1e12));
    app.add_option("--models", settings_.models, "how many")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--weights-memory-bytes", cache_, "memory of the device that caches weights")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--zipf", settings_.zipf,
                   "exponent: the n-th model is asked for n^-ZIPF as often")
        ->check(CLI::Range(0.0, 10.0))
        ->capture_default_str();
    app.add_option("--rate", settings_.rate, "requests a second")
        ->check(CLI::Range(0.001, 10'000.0))
        ->capture_default_str();
    app.add_option("--seconds", settings_.duration, "for how long requests arrive")
        ->check(CLI::Range(1.0, 1e6))
        ->capture_default_str();
    app.add_option("--prompt", settings_.prompt, "tokens of a prompt")
        ->check(CLI::Range(1, 2048))
        ->capture_default_str();
    app.add_option("--output", settings_.output, "tokens of an answer")
        ->check(CLI::Range(1, 2048))
        ->capture_default_str();
    app.add_option("--kv-frame-bytes", frame_, "size of a KV frame; small for tiny models")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--seed", settings_.seed, "of arrivals, models and prompts");
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    if (config_file_.empty()) return invalid_argument("--model-config is required: a config.json");
    CAUSEWAY_ASSIGN(settings_.config, read_model_config(config_file_));
    settings_.frame = Bytes(static_cast<std::int64_t>(frame_));
    settings_.links = links_.options();
    settings_.cache = Bytes(static_cast<std::int64_t>(cache_));
    settings_.progress = [](const std::string& what) { fmt::print(stderr, "{} …\n", what); };
    CAUSEWAY_ASSIGN(const auto report, bench::bench_catalogue(settings_, clock_));
    bench::print_report(report);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  const Clock& clock_;
  std::string config_file_;
  std::uint64_t frame_ = std::uint64_t{4} << 20;
  std::uint64_t cache_ = 30'000'000'000;
  bench::CatalogueSettings settings_;
  LinkSettings links_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_catalogue(CLI::App& parent, const Clock& clock) {
  return std::make_unique<BenchCatalogue>(parent, clock);
}

}  // namespace causeway::app
