#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"
#include "base/open_files.h"
#include "bench/commands/fleet_options.h"
#include "bench/commands/measuring.h"
#include "bench/commands/profile_of_hardware.h"
#include "bench/commands/replay_here.h"
#include "bench/commands/simulated_profile.h"
#include "bench/commands/switching_options.h"
#include "bench/replay_beside.h"
#include "bench/replay_server.h"
#include "bench/replay_simulated.h"
#include "catalogue/synthetic_catalogue.h"
#include "commands/chunk_option.h"
#include "commands/json_file.h"
#include "commands/rotation_options.h"
#include "fleet/catalogue.h"
#include "weights/checked_json.h"

namespace causeway::app {
namespace {

constexpr std::int64_t kOpenFiles = 65'536;  // a connection a request that runs
constexpr std::int64_t kRequestsAtOnce = 65'536;

void print_replay_progress(const bench::LoadProgress& p) {
  fmt::print(stderr, "\r{:7.1f} s  sent {}/{}  done {}  failed {}   ", to_seconds(p.elapsed),
             p.sent, p.total, p.completed, p.failed);
}

Status read_target(const char* option, double ms, Nanos& target) {
  const auto given = request::target_from_ms(ms);
  if (!given.ok()) return given.error().with_context(option);
  target = *given;
  return {};
}

class Replay final : public Command {
 public:
  Replay(Options& parent, const Clock& clock)
      : Command(parent, "replay",
                "Send the requests of a recorded trace to a server, to slices of this process or "
                "to the simulator, and report latencies in the same form for all"),
        clock_(clock) {
    declare_server();
    declare_arrivals();
    declare_lengths();
    declare_report();
    declare_here();
    declare_simulation();
  }

  Status run() override {
    if (int{simulate_} + int{!url_.empty()} + int{!device_.empty()} != 1) {
      return invalid_argument("give one of --url of a server, --in-process, and --simulate");
    }
    CAUSEWAY_TRY(read_target("--slo-ttft-ms", slo_ttft_ms_, options_.slo.ttft));
    CAUSEWAY_TRY(read_target("--slo-tpot-ms", slo_tpot_ms_, options_.slo.tpot));
    if (options().count("--zipf") > 0 || zipf_ >= 0) options_.zipf = zipf_;
    nlohmann::ordered_json other;
    if (!beside_.empty()) {
      CAUSEWAY_ASSIGN(other, read_other());
    }
    CAUSEWAY_ASSIGN(const auto report, simulate_         ? run_simulation()
                                       : device_.empty() ? run_server()
                                                         : run_here());
    fmt::print("{}", bench::to_text(report));
    if (per_model_) fmt::print("\n{}", bench::to_table(report.load));
    const auto json = bench::to_json(report);
    CAUSEWAY_TRY(write_json(json_file_, json));
    if (!beside_.empty()) {
      CAUSEWAY_ASSIGN(const std::string table, bench::beside_text(json, other));
      fmt::print("\n{}", table);
    }
    if (report.load.all.failed < report.load.all.requests) return {};
    return unavailable("every request failed: " + report.load.all.first_error);
  }

 private:
  void declare_server() {
    const auto group = [](Option option) { return option.group("Server"); };
    auto& app = options();
    group(app.add_option("--url", url_, "of a running server, e.g. http://127.0.0.1:8000"));
    group(app.add_option("--api-key", api_key_, "sent as a bearer token"));
    group(app.add_option("--wait-ready", ready_seconds_,
                         "seconds to wait until all models are ready; 0: do not wait"))
        .range(0.0, 1e6);
    group(app.add_option("--request-timeout", timeout_seconds_,
                         "seconds after which a request is given up"))
        .range(0.1, 1e5)
        .show_default();
    group(app.add_option("--vocab-size", target_.vocab,
                         "token ids of prompts are below this number; default: 8192, or the least "
                         "that a model has"))
        .positive();
  }

  void declare_here() {
    const auto group = [](Option option) { return option.group("In process"); };
    auto& app = options();
    group(app.add_option("--in-process", device_,
                         "cpu or cuda: the models of --models-dir, on slices of this process "
                         "that are asked without HTTP; what is said of --slices, memory and "
                         "scheduling below is theirs, sizes being those of a whole GPU"))
        .one_of({"cpu", "cuda"});
    group(app.add_flag("--isolate", isolate_, "its slices in worker processes"));
    group(app.add_option("--pool-memory-bytes", pool_bytes_,
                         "its host memory for weights; default: seven eighths of what there is"))
        .in_bytes();
  }

  void declare_arrivals() {
    const auto group = [](Option option) { return option.group("Arrivals"); };
    auto& app = options();
    group(app.add_option("--trace", options_.trace,
                         "arrivals, and models where it has some, of a trace file (Alibaba GenAI, "
                         "Azure, Mooncake, ShareGPT); default: made ones"));
    group(app.add_option("--compress", options_.compress,
                         "factor by which the trace's time passes faster"))
        .show_default();
    group(app.add_option("--skip", options_.skip, "seconds of the trace that are left out"))
        .show_default();
    group(app.add_option("--rate", options_.rate, "without a trace: requests a second"))
        .show_default();
    group(app.add_option("--burstiness", options_.burstiness,
                         "without a trace: shape of the gaps' Gamma distribution; 1: Poisson"))
        .show_default();
    group(app.add_option("--seconds", options_.seconds,
                         "seconds during which requests arrive; 0: until the trace's end"))
        .show_default();
    group(
        app.add_option(
            "--copies", options_.copies,
            "number of copies of each of the trace's requests; each copy comes at its own time "
            "within the following minute, and for a model of its own if the catalogue has enough"))
        .show_default();
    group(app.add_option("--max-requests", options_.requests_max, "most requests; 0: all"));
    group(
        app.add_option("--zipf", zipf_,
                       "exponent: requests for the n-th model are n^-ZIPF times as frequent as for "
                       "the first; default: the trace's frequencies, or 1 if it names no models"));
    group(app.add_option("--seed", options_.seed,
                         "seed; the same seed and catalogue give the same requests"))
        .show_default();
  }

  void declare_lengths() {
    const auto group = [](Option option) { return option.group("Lengths"); };
    auto& app = options();
    group(app.add_option("--lengths", options_.lengths,
                         "a trace file of which lengths are drawn (ShareGPT, Azure, arXiv); "
                         "default: the trace's own, or 512 and 64 tokens"));
    group(app.add_option("--input-len", options_.input,
                         "tokens of each prompt, instead of drawn lengths"));
    group(app.add_option("--output-len", options_.output,
                         "tokens of each answer, instead of drawn lengths"));
    group(app.add_option("--input-max", options_.input_max, "longer prompts are cut"))
        .show_default();
    group(app.add_option("--output-max", options_.output_max, "longer answers are cut"))
        .show_default();
  }

  void declare_report() {
    const auto group = [](Option option) { return option.group("Report"); };
    auto& app = options();
    group(app.add_option("--slo-ttft-ms", slo_ttft_ms_, "target for the first token"))
        .show_default();
    group(app.add_option("--slo-tpot-ms", slo_tpot_ms_, "target for each further token"))
        .show_default();
    group(app.add_flag("--per-model", per_model_, "also print a row for each model"));
    group(app.add_option("--beside", beside_,
                         "a file that --json wrote; both reports are printed side by side"));
    group(app.add_option("--json", json_file_,
                         "also write the report, with its course over time, to this file ('-': "
                         "standard output); tools/plot/plot.py draws it"));
  }

  // Before anything is asked, so that a wrong file costs no time.
  Result<nlohmann::ordered_json> read_other() const {
    CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(beside_, mib(256)));
    std::string buffer;
    auto other = nlohmann::ordered_json::parse(plain_json_numbers(text, buffer), nullptr, false);
    const auto table = bench::beside_text(other, other);
    if (!table.ok()) return table.error().with_context(beside_);
    return other;
  }

  void declare_simulation() {
    const char* const kGroup = "Simulation";
    const auto group = [&](Option option) { return option.group(kGroup); };
    auto& app = options();
    group(app.add_flag("--simulate", simulate_, "in virtual time instead of on a server"));
    group(app.add_option("--hardware", hardware_,
                         fmt::format("{}, or a JSON file of the same form",
                                     fmt::join(simulate::profile_names(), ", "))))
        .show_default();
    group(app.add_option("--catalogue", catalogue_.models,
                         "number of models of 0.5 to 2.9 GB, the same as make-catalogue's"))
        .range(std::int64_t{1}, bench::kCatalogueModelsMax)
        .show_default();
    group(app.add_option("--catalogue-kind", catalogue_kind_,
                         "dense models, mixtures of experts, or both"))
        .one_of(bench::catalogue_kinds())
        .show_default();
    group(app.add_option("--catalogue-seed", catalogue_.seed,
                         "seed that decides which model has which shape"))
        .show_default();
    group(app.add_option("--models-dir", models_dir_,
                         "use the models of this folder instead; also with --in-process"));
    const auto size = [&](const char* name, std::uint64_t& bytes, const char* what) {
      group(app.add_option(name, bytes, what)).in_bytes();
    };
    size("--weights-memory-bytes", weights_bytes_,
         "device memory of a slice that caches weights; default: what KV leaves");
    size("--kv-cache-memory-bytes", kv_bytes_, "device memory of a slice for KV; default: 8GB");
    size("--kv-host-memory-bytes", kv_host_bytes_,
         "host memory for KV of requests that give up theirs; default: none");
    size("--kv-frame-bytes", frame_bytes_, "size of a KV frame; default: 4MB");
    group(app.add_flag("--no-enable-prefix-caching", no_prefix_caching_,
                       "share no KV between requests, as in serve; if no prompt repeats another "
                       "one the times are the same, and the simulation is faster"));
    fleet_options_.declare(app, 0, kGroup);
    rotation_.declare_policy(app, kGroup);
    group(app.add_option("--max-num-seqs", fleet_.slice.schedule.running_max,
                         "most sequences that run at the same time"))
        .positive()
        .show_default();
    group(app.add_option("--max-num-batched-tokens", fleet_.slice.schedule.tokens_per_step_max,
                         "most tokens of a step"))
        .positive()
        .show_default();
    chunk_.declare(app, kGroup);
    switching_.declare(app, kGroup);
  }

  Result<bench::ReplayReport> run_server() {
    CAUSEWAY_ASSIGN(target_.endpoint, bench::parse_api_url(url_, api_key_));
    target_.request_max = nanos_from_seconds(timeout_seconds_);
    target_.ready_max = nanos_from_seconds(ready_seconds_);
    const auto allowed = allow_open_files(kOpenFiles);
    if (!allowed.ok()) return allowed.error();
    const bool live = isatty(STDERR_FILENO) != 0;
    if (live) target_.progress = print_replay_progress;
    auto report = bench::replay_on_server(target_, options_, clock_);
    if (live) fmt::print(stderr, "\n");
    return report;
  }

  // What is simulated otherwise.
  Result<ReplayHereOptions> slices_here() {
    simulate::SimulationOptions& slice = fleet_.slice;
    slice.kv_host_memory = bytes_of(kv_host_bytes_);
    CAUSEWAY_TRY(rotation_.apply(slice.schedule, slice.rotation, slice.kv_host_memory));
    CAUSEWAY_TRY(chunk_.apply(slice.schedule));
    CAUSEWAY_TRY(switching_.apply(slice));
    if (slice.reads_at_home) {
      return unsupported("--hybrid-gemm: only simulated steps read at home what has not arrived");
    }
    if (slice.whole_models && isolate_) {
      return invalid_argument("--switching: worker processes bring layers; leave out --isolate");
    }
    if (slice.whole_models && device_ == "cpu" && weights_bytes_ == 0) {
      return invalid_argument("--switching: nothing is switched without --weights-memory-bytes");
    }
    if (slice.kv_host_memory > Bytes(0) && !slice.schedule.rotates()) {
      return invalid_argument(
          "--kv-host-memory-bytes would not be used: choose a policy that "
          "rotates, or --preemption rotate");
    }
    ReplayHereOptions here;
    CAUSEWAY_ASSIGN(here.placement, fleet::find_placement(fleet_options_.placement()));
    here.models_dir = models_dir_;
    here.cuda = device_ == "cuda";
    here.pool = bytes_of(pool_bytes_);
    here.ready_max = nanos_from_seconds(ready_seconds_);
    const bool all = options().count("--slices") == 0;
    here.slices = {.slices = all ? "all" : fleet_options_.slices(),
                   .isolate = isolate_,
                   .kv = bytes_of(kv_bytes_),
                   .kv_frame = bytes_of(frame_bytes_),
                   .kv_host = slice.kv_host_memory,
                   .weights = bytes_of(weights_bytes_),
                   .switching = slice.copies_out     ? slice::Switching::kSleep
                                : slice.whole_models ? slice::Switching::kReload
                                                     : slice::Switching::kLayers};
    here.slices.engine.requests_max = kRequestsAtOnce;
    engine::CoreOptions& core = here.slices.engine.core;
    core.schedule = slice.schedule;
    core.rotation = slice.rotation;
    core.step_start = slice.step_start;
    core.prefix_caching = !no_prefix_caching_;
    core.prefix_hash_seed = options_.seed;
    return here;
  }

  Result<bench::ReplayReport> run_here() {
    if (models_dir_.empty()) return invalid_argument("--in-process: give --models-dir");
    CAUSEWAY_ASSIGN(ReplayHereOptions here, slices_here());
    here.replay = {.vocab = target_.vocab, .request_max = nanos_from_seconds(timeout_seconds_)};
    const bool live = isatty(STDERR_FILENO) != 0;
    if (live) here.replay.progress = print_replay_progress;
    auto report = replay_here(std::move(here), rotation_, options_, clock_);
    if (live) fmt::print(stderr, "\n");
    return report;
  }

  Result<std::vector<bench::NamedConfig>> catalogue() const {
    if (models_dir_.empty()) {
      bench::CatalogueOptions options = catalogue_;
      options.kind =
          bench::catalogue_kind_named(catalogue_kind_).value_or(bench::CatalogueKind::kDense);
      return bench::synthetic_catalogue(options);
    }
    CAUSEWAY_ASSIGN(const auto sources, fleet::find_models(models_dir_));
    std::vector<bench::NamedConfig> models;
    for (const fleet::ModelSource& source : sources) {
      auto config = model::load_config(source.directory);
      if (!config.ok()) return config.error().with_context(source.name);
      models.push_back({source.name, std::move(config).value()});
    }
    return models;
  }

  Result<bench::ReplayReport> run_simulation() {
    simulate::SimulationOptions& slice = fleet_.slice;
    CAUSEWAY_ASSIGN(slice.profile, profile_of_hardware(hardware_));
    slice.frame = bytes_of(frame_bytes_);
    slice.kv_memory = bytes_of(kv_bytes_);
    slice.kv_host_memory = bytes_of(kv_host_bytes_);
    slice.seed = options_.seed;
    slice.prefix_caching = !no_prefix_caching_;
    CAUSEWAY_TRY(rotation_.apply(slice.schedule, slice.rotation, slice.kv_host_memory));
    CAUSEWAY_TRY(chunk_.apply(slice.schedule));
    CAUSEWAY_TRY(switching_.apply(slice));
    if (slice.alpha) slice.alpha->slo = options_.slo;
    CAUSEWAY_TRY(fleet_options_.apply(options_.seed, fleet_));
    if (weights_bytes_ > 0) slice.profile.memory = slice.kv_memory + bytes_of(weights_bytes_);
    CAUSEWAY_ASSIGN(const auto models, catalogue());
    for (const bench::NamedConfig& model : models) {
      CAUSEWAY_ASSIGN(auto shape, simulate::shape_of(model.name, model.config, slice.frame));
      slice.models.push_back(std::move(shape));
    }
    CAUSEWAY_TRY(check_simulated_profile(slice, fleet_.slices == 1 && !fleet_.gpu_parts));
    return bench::replay_simulated(fleet_, options_);
  }

  const Clock& clock_;
  std::string url_, api_key_, device_, json_file_, beside_;
  double ready_seconds_ = 0, timeout_seconds_ = 120;
  double slo_ttft_ms_ = 1000, slo_tpot_ms_ = 100, zipf_ = -1;
  bool per_model_ = false, simulate_ = false, no_prefix_caching_ = false, isolate_ = false;
  bench::ReplayOptions options_;
  bench::ReplayTarget target_;
  std::string hardware_ = "h200", models_dir_, catalogue_kind_ = "dense";
  bench::CatalogueOptions catalogue_;
  std::uint64_t weights_bytes_ = 0, kv_host_bytes_ = 0, pool_bytes_ = 0;
  std::uint64_t kv_bytes_ = std::uint64_t{8} << 30;
  std::uint64_t frame_bytes_ = std::uint64_t{4} << 20;
  FleetOptions fleet_options_;
  RotationOptions rotation_;
  ChunkOption chunk_;
  SwitchingOptions switching_;
  simulate::FleetSimulationOptions fleet_;
};

}  // namespace

std::unique_ptr<Command> make_replay(Options& parent, const Clock& clock) {
  return std::make_unique<Replay>(parent, clock);
}

}  // namespace causeway::app
