#include <nlohmann/json.hpp>

#include "bench/commands/measuring.h"
#include "bench/commands/profile_of_hardware.h"
#include "bench/commands/slice_options.h"
#include "bench/slo_bench.h"
#include "commands/json_file.h"
#include "commands/print_step.h"
#include "commands/rotation_options.h"

namespace causeway::app {
namespace {

class BenchSlo final : public Command {
 public:
  BenchSlo(Options& parent, const Clock& clock)
      : Command(parent, "slo",
                "Measure latency targets under load: the same arrivals under one policy after the "
                "other"),
        clock_(clock) {
    auto& app = options();
    slice_.declare(app, "config.json of the model; only shapes count");
    declare_load();
    auto& schedule = settings_.slice.engine.core.schedule;
    app.add_option("--scheduling-policy", policies_,
                   "policies as in serve, each optionally with its --preemption (rotary:auto); by "
                   "default fcfs and priority recompute, and the others rotate")
        .delimiter(',')
        .show_default();
    rotation_.declare(app);
    app.add_option("--max-num-seqs", schedule.running_max, "sequences in a step at most")
        .range(1, 4096)
        .show_default();
    app.add_option("--max-num-batched-tokens", schedule.tokens_per_step_max,
                   "tokens in a step at most")
        .range(1, 65'535)
        .show_default();
    app.add_option("--predict", hardware_,
                   "the machine's profile, as simulate's --hardware: beside each row is what the "
                   "simulator expects of it; with --kv-cache-memory-bytes");
    app.add_option("--json", json_file_, "also write the report to this file ('-': output)");
  }

  Status run() override {
    CAUSEWAY_ASSIGN(settings_.config, slice_.config());
    slice_.apply(settings_.slice);
    for (const std::string& policy : policies_) {
      CAUSEWAY_ASSIGN(const auto parsed, bench::parse_slo_policy(policy));
      settings_.policies.push_back(parsed);
    }
    CAUSEWAY_TRY(read_rotation());
    if (!hardware_.empty()) {
      CAUSEWAY_ASSIGN(settings_.profile, profile_of_hardware(hardware_));
    }
    settings_.progress = print_step;
    CAUSEWAY_ASSIGN(const auto rows, bench::bench_slo(settings_, clock_));
    bench::print_slo(rows, settings_.slo);
    return write_json(json_file_, bench::slo_json(rows, settings_.slo));
  }

 private:
  Status read_rotation() {
    engine::CoreOptions& core = settings_.slice.engine.core;
    CAUSEWAY_TRY(rotation_.apply(core.schedule, core.rotation, settings_.slice.kv_host));
    CAUSEWAY_ASSIGN(const auto configs, slice_.configs());
    CAUSEWAY_ASSIGN(const auto of_models, rotation_.of_models({configs.front().name}));
    settings_.slo = of_models.front().slo;
    settings_.alpha = of_models.front().alpha;
    return {};
  }

  void declare_load() {
    auto& app = options();
    app.add_option("--trace", settings_.trace, "recorded lengths (see bench serve)")
        .existing_file();
    app.add_option("--input-len", settings_.input_tokens, "mean prompt tokens without a trace")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--output-len", settings_.output_tokens, "mean output tokens without a trace")
        .range(1, 1 << 20)
        .show_default();
    app.add_option("--rate", settings_.rates,
                   "requests per second; several rates are measured in turn")
        .range(0.001, 10'000.0)
        .delimiter(',')
        .required();
    app.add_option("--seconds", settings_.duration,
                   "seconds during which requests arrive, at each rate")
        .range(0.1, 1e5)
        .show_default();
    app.add_option("--burstiness", settings_.burstiness,
                   "shape of the gaps' Gamma distribution: 1 is Poisson, less comes in bursts")
        .range(0.01, 1000.0)
        .show_default();
    app.add_option("--seed", settings_.seed, "seed of arrivals and prompts").show_default();
  }

  const Clock& clock_;
  SliceOptions slice_;
  std::vector<std::string> policies_ = {"fcfs", "waiting-first", "artifact", "rotary"};
  RotationOptions rotation_;
  bench::SloBenchSettings settings_;
  std::string hardware_, json_file_;
};

}  // namespace

std::unique_ptr<Command> make_bench_slo(Options& parent, const Clock& clock) {
  return std::make_unique<BenchSlo>(parent, clock);
}

}  // namespace causeway::app
