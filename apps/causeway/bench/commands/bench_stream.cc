#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/expert_bench.h"
#include "bench/stream_bench.h"
#include "commands/json_file.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class BenchStream final : public Command {
 public:
  BenchStream(Options& parent, const Clock& clock)
      : Command(parent, "stream",
                "Decode and prefill a model of random weights that passes through HBM in part"),
        clock_(clock) {
    auto& app = options();
    slice_.declare(app,
                   "config.json of the model, and of a resident neighbour where a second is "
                   "given; only shapes count");
    app.add_option("--resident", residents_,
                   "share of the model's bytes that fit its part of HBM, ring included; several "
                   "values are measured in turn")
        .range(0.0, 1.0)
        .delimiter(',')
        .show_default();
    app.add_option("--weights-ring-bytes", ring_, "HBM through which the other weights pass")
        .in_bytes();
    app.add_option("--rounds", settings_.rounds, "repetitions of each figure")
        .range(1, 1000)
        .show_default();
    app.add_option("--batch", settings_.batches, "sequences that decode together; several: in turn")
        .range(1, 256)
        .show_default();
    app.add_option("--context", settings_.context, "tokens of each of these sequences' prompts")
        .range(1, 8192)
        .show_default();
    app.add_option("--output", settings_.output, "tokens that each sequence decodes")
        .range(2, 1024)
        .show_default();
    app.add_option("--prefill", settings_.prefill, "tokens of the prompt that is timed alone")
        .range(1, 8192)
        .show_default();
    app.add_option("--neighbour-batch", settings_.beside.batch, "sequences of the neighbour")
        .range(1, 256)
        .show_default();
    app.add_option("--neighbour-output", settings_.beside.output,
                   "most tokens that each of these sequences decodes")
        .range(1, 1'000'000)
        .show_default();
    app.add_option("--routing", routing_,
                   "for a model with experts, which are then cached one by one: how routers choose "
                   "them, uniform or zipf:EXPONENT; several values are measured in turn")
        .check(check_routing, "uniform|zipf:EXPONENT");
    app.add_option("--experts-policy", policies_,
                   "how cached experts are chosen: frequency, lru, activation or map; several are "
                   "measured in turn, and the last one is the baseline")
        .one_of({"frequency", "lru", "activation", "map"})
        .show_default();
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
    bench::StreamReport report;
    if (routing_.empty()) {
      settings_.slice.experts = weights::ExpertPolicy::kWhole;
      CAUSEWAY_TRY(stream_each(report));
    } else {
      if (residents_.size() > 1) return invalid_argument("--resident: one, with --routing");
      settings_.resident = residents_.front();
      CAUSEWAY_ASSIGN(report.rows, bench::bench_experts(expert_settings(), clock_));
    }
    bench::print_figures(report.rows);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  // The shares of HBM name the rows, where there are several.
  Status stream_each(bench::StreamReport& report) {
    for (const double resident : residents_) {
      settings_.resident = resident;
      CAUSEWAY_ASSIGN(bench::StreamReport one, bench::bench_stream(settings_, clock_));
      for (bench::Figure& figure : one.rows) {
        if (residents_.size() > 1) figure.start = fmt::format("{:g} in HBM", resident);
        report.rows.push_back(std::move(figure));
      }
    }
    return {};
  }

  // Why not, or empty.
  static std::string check_routing(const std::string& routing) {
    return routing == "uniform" || exponent_of(routing) > 0
               ? std::string()
               : "routing is uniform or zipf:EXPONENT, not '" + routing + "'";
  }
  static double exponent_of(const std::string& routing) {
    constexpr std::string_view kZipf = "zipf:";
    return routing.starts_with(kZipf) ? std::strtod(routing.c_str() + kZipf.size(), nullptr) : 0;
  }
  bench::ExpertSettings expert_settings() const {
    bench::ExpertSettings experts{.model = settings_.model,
                                  .slice = settings_.slice,
                                  .resident = settings_.resident,
                                  .rounds = settings_.rounds,
                                  .exponents = {},
                                  .policies = policies_,
                                  .context = settings_.context,
                                  .output = settings_.output,
                                  .warm_prompt = settings_.prefill,
                                  .progress = settings_.progress};
    for (const std::string& routing : routing_) experts.exponents.push_back(exponent_of(routing));
    return experts;
  }

  const Clock& clock_;
  SliceOptions slice_;
  bench::StreamSettings settings_;
  std::vector<double> residents_ = {0.5};
  std::uint64_t ring_ = 0;
  std::vector<std::string> routing_;
  std::vector<std::string> policies_ = {"frequency", "lru"};
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_stream(Options& parent, const Clock& clock) {
  return std::make_unique<BenchStream>(parent, clock);
}

}  // namespace causeway::app
