#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "client/report.h"
#include "client/served_models.h"
#include "client/workload.h"
#include "commands/command.h"
#include "commands/json_file.h"

namespace causeway::app {
namespace {

using namespace causeway::bench;  // NOLINT: the command is this room's face

void print_load_progress(const LoadProgress& p) {
  const double elapsed = to_seconds(p.elapsed);
  fmt::print(stderr, "\r{:7.1f} s  sent {}/{}  done {}  failed {}  {:.0f} tok/s   ", elapsed,
             p.sent, p.total, p.completed, p.failed,
             static_cast<double>(p.output_tokens) / std::max(elapsed, 1e-9));
}

class BenchServe final : public Command {
 public:
  BenchServe(Options& parent, const Clock& clock)
      : Command(parent, "serve", "Drive an OpenAI-compatible server and report latencies"),
        clock_(clock) {
    declare_target();
    declare_workload();
  }

  Status run() override {
    CAUSEWAY_ASSIGN(load_.endpoint, parse_api_url(base_url_, api_key_));
    if (workload_.models.empty()) {
      CAUSEWAY_ASSIGN(const auto served, served_models(load_.endpoint));
      for (const ServedModel& model : served) workload_.models.push_back(model.name);
    }
    CAUSEWAY_ASSIGN(const auto requests, make_workload(workload_));
    if (isatty(STDERR_FILENO) != 0) load_.progress = print_load_progress;
    const auto records = run_load(requests, load_, clock_);
    if (load_.progress) fmt::print(stderr, "\n");
    const LoadReport report = make_report(records, {nanos_from_seconds(slo_ttft_ms_ * 1e-3),
                                                    nanos_from_seconds(slo_tpot_ms_ * 1e-3)});
    fmt::print("{}", to_table(report));
    CAUSEWAY_TRY(write_json(json_file_, to_json(report)));
    if (report.all.failed == report.all.requests) {
      return unavailable("every request failed: " + report.all.first_error);
    }
    return {};
  }

 private:
  void declare_target() {
    auto& app = options();
    app.add_option("--base-url", base_url_, "URL of the server; without a path: its /v1")
        .show_default();
    app.add_option("--api-key", api_key_, "sent as a bearer token");
    app.add_option("--model", workload_.models,
                   "models to ask; default: all that the server lists");
    app.add_option("--max-concurrency", load_.outstanding_max,
                   "most outstanding requests; 0: no limit");
    app.add_option("--slo-ttft-ms", slo_ttft_ms_, "target for the first token")
        .range(0.001, 1e9)
        .show_default();
    app.add_option("--slo-tpot-ms", slo_tpot_ms_, "target for each further token")
        .range(0.001, 1e9)
        .show_default();
    app.add_option("--json", json_file_,
                   "also write the report to this file ('-': standard output)");
  }

  void declare_workload() {
    auto& app = options();
    app.add_option("--trace", workload_.trace,
                   "a trace file (Azure, Mooncake, ShareGPT, lengths, GenAI)")
        .existing_file();
    app.add_option("--num-prompts", workload_.requests, "most requests to send")
        .positive()
        .show_default();
    app.add_option(
           "--request-rate", workload_.requests_per_second,
           "Poisson arrivals per second; 0: the trace's arrivals or, without them, all at once")
        .non_negative()
        .show_default();
    app.add_option("--time-scale", workload_.time_scale, "multiplies the trace's arrival times")
        .non_negative()
        .show_default();
    app.add_option("--input-len", workload_.input_tokens, "mean prompt tokens without a trace")
        .positive()
        .show_default();
    app.add_option("--output-len", workload_.output_tokens, "mean output tokens without a trace")
        .positive()
        .show_default();
    app.add_option("--range-ratio", workload_.length_spread,
                   "spread of the lengths around their means, 0 to 1")
        .range(0.0, 1.0)
        .show_default();
    app.add_option("--max-input-len", workload_.input_tokens_max,
                   "length to which longer prompts are cut; 0: none are cut");
    app.add_option("--max-output-len", workload_.output_tokens_max,
                   "length to which longer outputs are cut; 0: none are cut");
    app.add_option("--vocab-size", workload_.vocab, "token ids of prompts are below this number")
        .positive()
        .show_default();
    app.add_option("--seed", workload_.seed, "seed of the workload's random numbers")
        .show_default();
  }

  const Clock& clock_;
  std::string base_url_ = "http://127.0.0.1:8000/v1";
  std::string api_key_;
  std::string json_file_;
  double slo_ttft_ms_ = 5000;
  double slo_tpot_ms_ = 100;
  WorkloadOptions workload_;
  LoadOptions load_;
};

}  // namespace

std::unique_ptr<Command> make_bench_serve(Options& parent, const Clock& clock) {
  return std::make_unique<BenchServe>(parent, clock);
}

}  // namespace causeway::app
