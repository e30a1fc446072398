#include "simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/commands/fleet_options.h"
#include "bench/commands/measuring.h"
#include "bench/commands/profile_of_hardware.h"
#include "bench/commands/simulated_profile.h"
#include "bench/commands/switching_options.h"
#include "commands/chunk_option.h"
#include "commands/json_file.h"
#include "commands/rotation_options.h"
#include "fleet/catalogue.h"
#include "model/config.h"
#include "simulate/fleet_simulation.h"
#include "weights/checked_json.h"

namespace causeway::app {
namespace {

class Simulate final : public Command {
 public:
  explicit Simulate(Options& parent)
      : Command(parent, "simulate",
                "Serve a workload on a hardware profile in virtual time, with the real scheduler") {
    declare_machine();
    declare_scheduling();
    declare_workload();
    declare_fleet();
  }

  Status run() override {
    CAUSEWAY_ASSIGN(simulation_.profile, profile_of_hardware(hardware_));
    simulation_.frame = Bytes(static_cast<std::int64_t>(frame_bytes_));
    simulation_.kv_memory = Bytes(static_cast<std::int64_t>(kv_bytes_));
    CAUSEWAY_TRY(read_rotation());
    CAUSEWAY_TRY(chunk_.apply(simulation_.schedule));
    CAUSEWAY_TRY(switching_.apply(simulation_));
    simulation_.ring = Bytes(static_cast<std::int64_t>(ring_bytes_));
    simulation_.seed = seed_;
    CAUSEWAY_ASSIGN(simulation_.models, read_models());
    CAUSEWAY_ASSIGN(auto workload, make_workload());
    CAUSEWAY_TRY(set_targets(workload));
    if (given("--slices")) return run_fleet(workload);
    CAUSEWAY_TRY(check_simulated_profile(simulation_, true));
    CAUSEWAY_ASSIGN(const auto report, simulate::run(simulation_, workload));
    fmt::print("{}", simulate::to_text(report));
    return write_json(json_file_, nlohmann::ordered_json::parse(simulate::to_json(report)));
  }

 private:
  void declare_machine() {
    auto& app = options();
    app.add_option("--hardware", hardware_,
                   fmt::format("{}, or a JSON file of the same form",
                               fmt::join(simulate::profile_names(), ", ")))
        .show_default();
    app.add_option("--model-config", configs_,
                   "config.json of a model (or its folder); may be repeated");
    app.add_option("--max-resident-bytes", resident_,
                   "device memory for a model's weights, beyond which it is streamed: one size for "
                   "all models, or one for each --model-config; 0: no limit")
        .in_bytes();
    app.add_option("--weights-ring-bytes", ring_bytes_,
                   "part of that memory through which the model's other weights pass")
        .in_bytes();
    app.add_option("--kv-cache-memory-bytes", kv_bytes_, "device memory for KV")
        .in_bytes()
        .show_default();
    app.add_option("--kv-host-memory-bytes", kv_host_bytes_,
                   "host memory for KV of requests that give up theirs; default: none")
        .in_bytes();
    app.add_option("--kv-frame-bytes", frame_bytes_, "size of a KV frame")
        .in_bytes()
        .show_default();
    app.add_option("--json", json_file_,
                   "also write the report to this file ('-': standard output)");
  }

  void declare_scheduling() {
    auto& app = options();
    rotation_.declare_policy(app);
    rotation_.declare(app);
    app.add_option("--max-num-seqs", simulation_.schedule.running_max,
                   "most sequences that run at the same time")
        .positive()
        .show_default();
    app.add_option("--max-num-batched-tokens", simulation_.schedule.tokens_per_step_max,
                   "most tokens of a step")
        .positive()
        .show_default();
    chunk_.declare(app);
    switching_.declare(app);
  }

  void declare_workload() {
    auto& app = options();
    app.add_option("--trace", trace_, "a trace file (Azure, Mooncake, ShareGPT, lengths, GenAI)")
        .existing_file();
    app.add_option("--num-prompts", requests_,
                   "most requests; 0: the whole trace, repeated if arrivals are generated")
        .non_negative()
        .show_default();
    app.add_option(
           "--request-rate", rate_,
           "generated arrivals per second, without a trace or instead of the trace's arrivals")
        .non_negative()
        .show_default();
    app.add_option("--burstiness", burstiness_,
                   "for --request-rate: shape of the gaps' Gamma distribution; 1 is Poisson, "
                   "smaller values come in bursts")
        .show_default();
    app.add_option("--speed", speed_, "factor by which the trace's arrivals come faster")
        .positive()
        .show_default();
    app.add_option("--at-once", at_once_,
                   "instead of arrivals over time: number of requests that come at the start, for "
                   "each --model-config; --input-len and --output-len give their lengths, one "
                   "value for all or one for each")
        .non_negative();
    app.add_option("--input-len", input_, "mean prompt tokens without a trace")
        .positive()
        .show_default();
    app.add_option("--output-len", output_, "mean output tokens without a trace")
        .positive()
        .show_default();
    app.add_option("--seed", seed_, "seed; the same seed gives the same report").show_default();
  }

  void declare_fleet() {
    for (Option option : fleet_options_.declare(options(), 1)) {
      option.needs(options().get_option("--slices"));
    }
  }

  Status run_fleet(const simulate::Workload& workload) {
    fleet_.slice = simulation_;
    fleet_.fleet.waiting_max = std::ssize(workload) + 1;
    CAUSEWAY_TRY(fleet_options_.apply(seed_, fleet_));
    CAUSEWAY_TRY(check_simulated_profile(fleet_.slice, fleet_.slices == 1 && !fleet_.gpu_parts));
    CAUSEWAY_ASSIGN(const auto report, simulate::run_fleet(fleet_, workload));
    fmt::print("{}", simulate::to_text(report));
    return write_json(json_file_, nlohmann::ordered_json::parse(simulate::to_json(report)));
  }

  Status read_rotation() {
    simulation_.kv_host_memory = Bytes(static_cast<std::int64_t>(kv_host_bytes_));
    return rotation_.apply(simulation_.schedule, simulation_.rotation, simulation_.kv_host_memory);
  }

  Result<std::vector<simulate::ModelShape>> read_models() const {
    if (configs_.empty()) {
      return invalid_argument("--model-config is required: a config.json, or a model's folder");
    }
    CAUSEWAY_TRY(check_each("--max-resident-bytes", resident_.size()));
    std::vector<simulate::ModelShape> models;
    for (const std::filesystem::path path : configs_) {
      const bool folder = std::filesystem::is_directory(path);
      CAUSEWAY_ASSIGN(const std::string text,
                      weights::read_small_file(folder ? path / "config.json" : path, mib(1)));
      auto config = model::parse_config(text);
      if (!config.ok()) return config.error().with_context(path.string());
      const std::string name = folder ? path.filename().string() : path.stem().string();
      CAUSEWAY_ASSIGN(auto shape, simulate::shape_of(name, *config, simulation_.frame));
      if (!resident_.empty()) {
        shape.max_resident = Bytes(static_cast<std::int64_t>(of_model(resident_, models.size())));
      }
      models.push_back(std::move(shape));
    }
    return models;
  }

  Status set_targets(simulate::Workload& workload) {
    std::vector<std::string> names;
    for (const simulate::ModelShape& shape : simulation_.models) names.push_back(shape.name);
    CAUSEWAY_ASSIGN(const auto of_models, rotation_.of_models(names));
    for (std::size_t i = 0; i < of_models.size(); ++i) {
      simulation_.models[i].rotary_alpha = of_models[i].alpha;
    }
    if (simulation_.alpha) simulation_.alpha->slo = of_models.front().slo;
    for (simulate::Arrival& arrival : workload) arrival.slo = of_models[arrival.model].slo;
    return {};
  }

  // Values of an option that is given once for all models, or for each.
  Status check_each(const std::string& option, std::size_t values) const {
    if (values <= 1 || values == configs_.size()) return {};
    return invalid_argument(option + ": give one value, or one for each --model-config");
  }
  template <typename Value>
  static Value of_model(const std::vector<Value>& values, std::size_t model) {
    return values[std::min(model, values.size() - 1)];
  }

  Result<simulate::Workload> fixed_workload_of() const {
    CAUSEWAY_TRY(check_each("--at-once", at_once_.size()));
    CAUSEWAY_TRY(check_each("--input-len", input_.size()));
    CAUSEWAY_TRY(check_each("--output-len", output_.size()));
    std::vector<simulate::FixedRequests> models;
    for (std::size_t i = 0; i < configs_.size(); ++i) {
      models.push_back({.count = of_model(at_once_, i),
                        .prompt = Tokens(of_model(input_, i)),
                        .output = Tokens(of_model(output_, i))});
    }
    return simulate::fixed_workload(models);
  }

  bool given(const std::string& option) { return options().count(option) > 0; }

  Result<simulate::Workload> make_workload() {
    CAUSEWAY_TRY(simulate::check_burstiness(burstiness_));
    if (!at_once_.empty()) return fixed_workload_of();
    if (trace_.empty()) {
      return simulate::poisson_workload({.requests = requests_,
                                         .per_second = rate_,
                                         .burstiness = burstiness_,
                                         .models = configs_.size(),
                                         .prompt_mean = Tokens(input_.front()),
                                         .output_mean = Tokens(output_.front()),
                                         .slo = {},
                                         .seed = seed_});
    }
    CAUSEWAY_ASSIGN(const auto trace, request::load_trace(trace_, requests_));
    const bool own_arrivals = trace.has_arrivals && !given("--request-rate");
    const bool repeats = !own_arrivals && given("--num-prompts");
    return simulate::trace_workload(trace, {.models = configs_.size(),
                                            .speed = speed_,
                                            .per_second = rate_,
                                            .burstiness = burstiness_,
                                            .own_arrivals = own_arrivals,
                                            .requests = repeats ? requests_ : 0,
                                            .prompt_mean = Tokens(input_.front()),
                                            .output_mean = Tokens(output_.front()),
                                            .slo = {},
                                            .seed = seed_});
  }

  std::string hardware_ = "h200", trace_, json_file_;
  std::vector<std::string> configs_;
  std::uint64_t kv_bytes_ = std::uint64_t{8} << 30;
  std::uint64_t kv_host_bytes_ = 0;
  std::uint64_t frame_bytes_ = std::uint64_t{4} << 20;
  std::vector<std::uint64_t> resident_;
  std::uint64_t ring_bytes_ = 0;
  std::int64_t requests_ = 1000;
  std::vector<std::int64_t> at_once_, input_ = {512}, output_ = {128};
  double rate_ = 1, speed_ = 1, burstiness_ = 1;
  std::uint64_t seed_ = 1;
  RotationOptions rotation_;
  ChunkOption chunk_;
  SwitchingOptions switching_;
  simulate::SimulationOptions simulation_;
  FleetOptions fleet_options_;
  simulate::FleetSimulationOptions fleet_;
};

}  // namespace

std::unique_ptr<Command> make_simulate(Options& parent) {
  return std::make_unique<Simulate>(parent);
}

}  // namespace causeway::app
