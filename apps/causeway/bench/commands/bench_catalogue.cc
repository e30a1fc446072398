#include <nlohmann/json.hpp>

#include "bench/catalogue_bench.h"
#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "commands/json_file.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class BenchCatalogue final : public Command {
 public:
  BenchCatalogue(Options& parent, const Clock& clock)
      : Command(parent, "catalogue",
                "Serve many models of random weights, some asked for often, most seldom (Zipf)"),
        clock_(clock) {
    auto& app = options();
    slice_.declare(app,
                   "config.json of the largest model; only shapes count, others have fewer layers");
    slice_.declare_weights(app, Bytes(30'000'000'000));
    app.add_option("--models", settings_.models, "number of models").range(1, 1000).show_default();
    app.add_option(
           "--zipf", settings_.zipf,
           "exponent: requests for the n-th model are n^-ZIPF times as frequent as for the first")
        .range(0.0, 10.0)
        .show_default();
    app.add_option("--rate", settings_.rate, "requests per second")
        .range(0.001, 10'000.0)
        .show_default();
    app.add_option("--seconds", settings_.duration, "seconds during which requests arrive")
        .range(1.0, 1e6)
        .show_default();
    app.add_option("--prompt", settings_.prompt, "tokens of a prompt")
        .range(1, 2048)
        .show_default();
    app.add_option("--output", settings_.output, "tokens of an answer")
        .range(1, 2048)
        .show_default();
    app.add_option("--seed", settings_.seed, "seed of arrivals and models");
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(settings_.config, slice_.config());
    slice_.apply(settings_.slice);
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto report, bench::bench_catalogue(settings_, clock_));
    bench::print_report(report);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  const Clock& clock_;
  SliceOptions slice_;
  bench::CatalogueSettings settings_;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_catalogue(Options& parent, const Clock& clock) {
  return std::make_unique<BenchCatalogue>(parent, clock);
}

}  // namespace causeway::app
