#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/slice_options.h"
#include "bench/engine_bench.h"
#include "bench/slo_bench.h"
#include "client/workload.h"
#include "commands/json_file.h"
#include "commands/print_step.h"

namespace causeway::app {
namespace {

class BenchEngine final : public Command {
 public:
  BenchEngine(Options& parent, const Clock& clock)
      : Command(parent, "engine",
                "Run a slice's engine, with random weights: a trace all at once, steady decode"),
        clock_(clock) {
    auto& app = options();
    auto& core = settings_.slice.engine.core;
    core.schedule.running_max = 256;
    core.schedule.tokens_per_step_max = 8192;
    slice_.declare(app, "config.json of the model; only shapes count");
    app.add_option("--trace", trace_,
                   "file of recorded lengths (see bench serve); all requests come at once")
        .existing_file();
    app.add_option("--num-prompts", prompts_, "requests of the trace, from its start")
        .range(1, 100'000)
        .show_default();
    app.add_option("--runs", settings_.runs, "runs of the trace, after one that warms up")
        .range(1, 100)
        .show_default();
    app.add_option("--batch", settings_.decode_batches, "sequences that decode together")
        .range(1, 4096)
        .delimiter(',');
    app.add_option("--context", settings_.decode_context,
                   "tokens of each of these sequences' prompts")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--output", settings_.decode_tokens,
                   "tokens that each of these sequences decodes")
        .range(2, 1 << 20)
        .show_default();
    app.add_option("--max-num-seqs", core.schedule.running_max, "sequences in a step at most")
        .range(1, 4096)
        .show_default();
    app.add_option("--max-num-batched-tokens", core.schedule.tokens_per_step_max,
                   "tokens in a step at most")
        .range(1, 65'535)
        .show_default();
    app.add_option("--scheduling-policy", policy_,
                   "as bench slo's: fcfs, or rotary, whose KV rotates: with --kv-host-memory-bytes")
        .show_default();
    app.add_option("--steps-in-flight", core.steps_in_flight_max,
                   "2: the next step is prepared while one runs")
        .range(1, 2)
        .show_default();
    app.add_flag("--no-graphs", no_graphs_, "launch every kernel by itself");
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(settings_.config, slice_.config());
    slice_.apply(settings_.slice);
    settings_.slice.graphs = !no_graphs_;
    CAUSEWAY_ASSIGN(const auto policy, bench::parse_slo_policy(policy_));
    settings_.slice.engine.core.schedule.policy = policy.policy;
    settings_.slice.engine.core.schedule.preemption = policy.preemption;
    settings_.progress = print_step;
    if (!trace_.empty()) {
      bench::WorkloadOptions wanted;
      wanted.models = {"model"};
      wanted.trace = trace_;
      wanted.requests = prompts_;
      wanted.vocab = settings_.config.vocab;
      CAUSEWAY_ASSIGN(settings_.requests, bench::make_workload(wanted));
    }
    CAUSEWAY_ASSIGN(const auto report, bench::bench_engine(settings_, clock_));
    bench::print_report(report);
    return write_json(json_file_, bench::report_json(report));
  }

 private:
  const Clock& clock_;
  SliceOptions slice_;
  std::string trace_, policy_ = "fcfs";
  std::int64_t prompts_ = 300;
  bench::EngineBenchSettings settings_;
  bool no_graphs_ = false;
  std::string json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_engine(Options& parent, const Clock& clock) {
  return std::make_unique<BenchEngine>(parent, clock);
}

}  // namespace causeway::app
