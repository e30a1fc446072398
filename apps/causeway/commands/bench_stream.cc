#include <nlohmann/json.hpp>

#include "bench/stream_bench.h"
#include "commands/command.h"
#include "commands/json_file.h"
#include "commands/slice_options.h"

namespace causeway::app {
namespace {

class BenchStream final : public Command {
 public:
  BenchStream(CLI::App& parent, const Clock& clock)
      : Command(parent, "stream",
                "Decode and prefill a model of random weights that passes through HBM in part"),
        clock_(clock) {
    auto& app = options();
    slice_.declare(app,
                   "config.json of the model, and of a resident neighbour where a second is "
                   "given; only shapes count");
    app.add_option("--resident", settings_.resident,
                   "part of the model's bytes that HBM has for it, ring included")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_option("--weights-ring-bytes", ring_, "HBM through which its other weights pass")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--rounds", settings_.rounds, "repetitions of each figure")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--batch", settings_.batches, "sequences that decode together; several: in turn")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--context", settings_.context, "tokens of their prompts")
        ->check(CLI::Range(1, 8192))
        ->capture_default_str();
    app.add_option("--output", settings_.output, "tokens that each decodes")
        ->check(CLI::Range(2, 1024))
        ->capture_default_str();
    app.add_option("--prefill", settings_.prefill, "tokens of the prompt that is timed alone")
        ->check(CLI::Range(1, 8192))
        ->capture_default_str();
    app.add_option("--neighbour-batch", settings_.beside.batch, "sequences of the neighbour")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--neighbour-output", settings_.beside.output,
                   "tokens that each of them decodes at most")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(auto configs, slice_.configs());
    if (configs.size() > 2) return invalid_argument("--model-config: two are enough here");
    settings_.model = std::move(configs.front());
    if (configs.size() == 2) settings_.neighbour = std::move(configs.back());
    slice_.apply(settings_.slice);
    settings_.slice.ring = Bytes(static_cast<std::int64_t>(ring_));
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto report, bench::bench_stream(settings_, clock_));
    bench::print_figures(report.rows);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  const Clock& clock_;
  SliceOptions slice_;
  bench::StreamSettings settings_;
  std::uint64_t ring_ = 0;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_stream(CLI::App& parent, const Clock& clock) {
  return std::make_unique<BenchStream>(parent, clock);
}

}  // namespace causeway::app
