#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>

#include "base/log.h"
#include "base/open_files.h"
#include "commands/chunk_option.h"
#include "commands/command.h"
#include "commands/gpu_option.h"
#include "commands/link_settings.h"
#include "commands/rotation_options.h"
#include "commands/serve_checks.h"
#include "commands/served_catalogue.h"
#include "commands/served_slices.h"
#include "commands/step_starts.h"
#include "commands/stop_signals.h"
#include "device/memory_headroom.h"
#include "engine/engine.h"
#include "fleet/early_load.h"
#include "fleet/local_fleet.h"
#include "fleet/pool_home.h"
#include "hub_cache.h"
#include "server/server.h"
#include "slice/cuda_slice.h"
#include "slice/machine.h"
#include "slice/model_home.h"
#include "version.h"

namespace causeway::app {
namespace {

constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 50;
constexpr Nanos kErrorsGrace = seconds(5);  // for answers to be written that tell of the end

// Ends the process as it is when a load is held, by a file system that does not answer: giving back
// what it uses would wait for it.
void leave_held_load(bool loader_ended, server::Server& server) {
  if (loader_ended) return;
  server.stop();
  fmt::print(stderr, "error: the load of a model does not end; the process does not wait for it\n");
  std::_Exit(1);
}

// Ends the process as it is when the device is lost or hangs: giving back what is on it would wait
// for it, here or in the driver's own exit handlers.
void leave_dead_device(const request::Observation& seen, server::Server& server) {
  if (!seen.hung && seen.lost.empty()) return;
  server.stop();
  fmt::print(stderr, "error: {}\n",
             seen.lost.empty() ? "the device does not answer: its step has not ended in time; the "
                                 "process ends without waiting for it"
                               : seen.lost);
  std::_Exit(1);
}

const std::map<std::string, slice::Switching> kSwitching = {{"layers", slice::Switching::kLayers},
                                                            {"reload", slice::Switching::kReload},
                                                            {"sleep", slice::Switching::kSleep}};

struct ServeOptions {
  CatalogueOptions catalogue;
  std::uint64_t pool_bytes = 0;     // 0: what the machine has less a reserve
  std::uint64_t weights_bytes = 0;  // 0: the slice's choice
  std::uint64_t ring_bytes = 0;     // 0: the slice's choice
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  std::uint64_t kv_bytes = 0;
  std::uint64_t kv_host_bytes = 0;  // 0: KV does not rotate
  std::uint64_t kv_frame_bytes = std::uint64_t{4} << 20;
  std::string device = "cpu";
  std::string gpu = "0";
  std::string slices = "all";
  double resize_interval_seconds = 60;
  bool isolate = false;
  fleet::PlacementKind placement = fleet::PlacementKind::kBandwidth;
  slice::Switching switching = slice::Switching::kLayers;
  double gpu_memory_utilization = 0.9;
  bool no_prefix_caching = false;
  bool load_on_demand = false;
  double grace_seconds = 30;
  std::uint64_t response_bytes = 0;  // none are kept
  double response_seconds = 3600;
  server::AdminOptions admin;
  int admin_port = -1;  // there is none
  std::string metrics_aliases = "none";
  std::string otlp_endpoint;
  double otlp_sample_ratio = 1;
  engine::EngineOptions engine;
  server::ServerOptions server;
};

class Serve final : public Command {
 public:
  Serve(Options& parent, const Clock& clock)
      : Command(parent, "serve", "Serve one model, or every model of a folder, over HTTP"),
        clock_(clock) {
    declare_models();
    declare_memory();
    declare_scheduling();
    declare_http();
    declare_admin();
    declare_tracing();
  }

  Status run() override {
    set_.catalogue.hub = hub_cache([](const char* name) { return std::getenv(name); });
    const StopSignals signals;  // before any thread starts, so that all inherit the mask
    std::optional<EndsAtSignal> starting(std::in_place, signals);
    ServedCatalogue catalogue(set_.catalogue, rotation_);
    CAUSEWAY_ASSIGN(auto models, catalogue.read_all());
    CAUSEWAY_TRY(finish_options());
    CAUSEWAY_TRY(allow_connections());
    CAUSEWAY_ASSIGN(const Bytes pool, pool_budget());

    slice::ModelHome home(clock_, pool);
    server::Server server(set_.server, clock_);
    fleet::SerialSink sink(server.sink());
    std::unique_ptr<fleet::EarlyLoad> early = load_early(home, models);
    CAUSEWAY_ASSIGN(const auto machine, open_machine(home));
    CAUSEWAY_ASSIGN(const GpuChoice gpus, gpu_choice(set_.gpu, set_.slices, *machine));
    CAUSEWAY_ASSIGN(const auto slices,
                    ServedSlices::open(slices_options(gpus), models, *machine, sink));
    CAUSEWAY_TRY(check_models(*slices, models, pool));
    catalogue.set_slices(*slices);
    for (fleet::CatalogueModel& model : models) catalogue.fit(model);
    const auto pool_home = slices->pool_home(home, clock_, std::move(early));
    const std::size_t count = models.size();
    CAUSEWAY_ASSIGN(
        const auto fleet,
        fleet::LocalFleet::start(std::move(models),
                                 fleet_options(set_.catalogue.model.empty() ? &catalogue : nullptr),
                                 *pool_home, slices->fleet(), sink));
    CAUSEWAY_TRY(server.start(*fleet));
    starting.reset();
    if (set_.server.admin) {
      spdlog::info("administered at http://{}:{}/", set_.admin.host, server.admin_port());
    }
    spdlog::info("serving {} model{} at http://{}:{}/v1", count, count == 1 ? "" : "s",
                 set_.server.host, server.port());
    std::string failure;
    const auto failed = [&] {
      failure = fleet->observe().lost;
      // A server of one model is of no use without it.
      if (failure.empty() && !set_.catalogue.model.empty())
        failure = fleet->status(ModelId(0)).last_error;
      return !failure.empty();
    };
    const bool stopped = signals.wait(failed);
    const Nanos grace = stopped ? nanos_from_seconds(set_.grace_seconds) : kErrorsGrace;
    signals.drain([&] { return server.drain(grace); });
    leave_dead_device(slices->observe_dead(), server);
    // The loop may be held by its device: a second signal must end that wait too.
    bool loader_ended = false;
    signals.drain([&] {
      loader_ended = fleet->stop();
      slices->stop();
      return true;
    });
    leave_dead_device(slices->observe_dead(), server);
    leave_held_load(loader_ended, server);
    server.stop();
    if (!failure.empty()) return unavailable(failure);
    spdlog::info("stopped");
    return {};
  }

 private:
  void declare_models() {
    auto& app = options();
    app.add_option("model", set_.catalogue.model,
                   "folder of one model (a Hugging Face snapshot), or its name in the hub's cache "
                   "(HF_HOME)")
        .group("Models");
    app.add_option("--models-dir", set_.catalogue.models_dir,
                   "serve every model of this folder or hub cache")
        .group("Models");
    app.add_option("--served-model-name", set_.catalogue.served_model_name,
                   "name of the one model in the API; default: its folder's")
        .group("Models");
    app.add_option("--max-model-len", set_.catalogue.max_model_len,
                   "tokens of prompt and output together; default: the model's own")
        .non_negative()
        .group("Models");
    app.add_option("--chat-template", set_.catalogue.chat_template,
                   "Jinja file that replaces the models' own")
        .existing_file()
        .group("Models");
    app.add_option("--tool-call-parser", set_.catalogue.tool_call_parser,
                   "format in which the models write tool calls; auto: the one that their chat "
                   "templates show")
        .one_of({"auto", "hermes", "llama3_json", "mistral", "none"})
        .show_default()
        .group("Models");
    app.add_option("--reasoning-parser", set_.catalogue.reasoning_parser,
                   "format in which the models mark their reasoning; auto: the one that their chat "
                   "templates show")
        .one_of({"auto", "deepseek_r1", "mistral", "qwen3", "none"})
        .show_default()
        .group("Models");
    app.add_option("--pin", set_.catalogue.pins,
                   "name of a model that is never unloaded, nor evicted from the device once it is "
                   "there; may be repeated")
        .one_value()
        .group("Models");
    app.add_option("--expected-rate", set_.catalogue.expected_rates,
                   "MODEL=RATE: expected requests per second, e.g. big=0.5; models with higher "
                   "rates are loaded first; default: 0; may be repeated")
        .one_value()
        .group("Models");
    app.add_flag("--load-on-demand", set_.load_on_demand,
                 "load each model at its first request instead of at the start")
        .group("Models");
  }

  // What the machine, or the container, has left, less a reserve for everything else.
  Result<Bytes> pool_budget() const {
    const Bytes cache(set_.device == "cpu" ? static_cast<std::int64_t>(set_.weights_bytes) : 0);
    const Bytes kv = kv_host() + (set_.device == "cpu" ? kv_on_cpu() : Bytes(0));
    if (set_.pool_bytes > 0 && cache + kv == Bytes(0)) {
      return Bytes(static_cast<std::int64_t>(set_.pool_bytes));
    }
    CAUSEWAY_ASSIGN(const device::MemoryHeadroom headroom, device::read_memory_headroom());
    CAUSEWAY_TRY(check_host_cache(cache, kv, headroom.bytes));
    if (set_.pool_bytes > 0) return Bytes(static_cast<std::int64_t>(set_.pool_bytes));
    const Bytes reserve = std::max(gib(1), headroom.bytes / 16) + kv + cache;
    const Bytes pool = std::max(headroom.bytes - reserve, Bytes(0));
    spdlog::info("host memory for weights: {:.1f} GB, from {} less {:.1f} GB",
                 static_cast<double>(pool.count) / 1e9, headroom.limited_by,
                 static_cast<double>(reserve.count) / 1e9);
    return pool;
  }

  Bytes kv_on_cpu() const {
    return set_.kv_bytes > 0 ? Bytes(static_cast<std::int64_t>(set_.kv_bytes)) : gib(1);
  }

  // What is loaded first begins while the GPU is opened, if it fits. Nothing, where no time is to
  // be won, or what is wrong with the model is told later.
  std::unique_ptr<fleet::EarlyLoad> load_early(
      slice::ModelHome& home, const std::vector<fleet::CatalogueModel>& models) const {
    if (set_.device != "cuda" || set_.load_on_demand || set_.isolate) return nullptr;
    const fleet::CatalogueModel& first =
        *std::min_element(models.begin(), models.end(), fleet::loads_before);
    auto config = model::load_config(first.source.directory);
    if (!config.ok()) return nullptr;
    auto card = slice::cuda_card(std::move(config).value(), kv_frame());
    if (!card.ok() || card->layout.bytes > home.pool.use().budget) return nullptr;
    return std::make_unique<fleet::EarlyLoad>(home, clock_, first.entry->id, first.source,
                                              std::move(card).value());
  }

  Bytes kv_host() const { return Bytes(static_cast<std::int64_t>(set_.kv_host_bytes)); }
  Bytes kv_frame() const { return Bytes(static_cast<std::int64_t>(set_.kv_frame_bytes)); }

  Result<std::unique_ptr<slice::Machine>> open_machine(slice::ModelHome& home) const {
    if (set_.isolate && links_.from_peer()) {
      return invalid_argument(
          "--home: worker processes bring weights from host memory only; "
          "leave out --isolate and MIG instances");
    }
    if (set_.device == "cuda") return slice::Machine::open_gpus(links_.options(), home, clock_);
    if (links_.from_peer()) {
      return invalid_argument("--home names a GPU, and models run on the CPU: add --device cuda");
    }
    return slice::Machine::open_host({}, {}, home, clock_);
  }

  ServedSlicesOptions slices_options(const GpuChoice& gpus) const {
    return {
        .slices = gpus.slices,
        .instances = gpus.instances,
        .gpu = gpus.gpu,
        .isolate = set_.isolate,
        .memory_utilization = set_.gpu_memory_utilization,
        .kv = set_.device == "cuda" ? Bytes(static_cast<std::int64_t>(set_.kv_bytes)) : kv_on_cpu(),
        .kv_frame = kv_frame(),
        .kv_host = kv_host(),
        .weights = Bytes(static_cast<std::int64_t>(set_.weights_bytes)),
        .ring = Bytes(static_cast<std::int64_t>(set_.ring_bytes)),
        .experts = set_.experts,
        .switching = set_.switching,
        .engine = set_.engine,
        .layout_rules = {.lasting = nanos_from_seconds(set_.resize_interval_seconds / 6),
                         .apart = nanos_from_seconds(set_.resize_interval_seconds)}};
  }

  fleet::LocalFleetOptions fleet_options(fleet::CatalogueReader* reader) const {
    // As many as find a place once their model is loaded.
    return {.load_ahead = !set_.load_on_demand,
            .waiting_for_load_max = set_.engine.requests_max,
            .placement = set_.placement,
            .reader = reader};
  }

  // One descriptor a connection. Fewer serve too: a connection beyond them waits to be accepted.
  Status allow_connections() {
    // Regions, models' files, listeners, logs, and connections that take an idle one's place.
    constexpr std::int64_t kOthers = 320;
    const std::int64_t needed =
        set_.server.limits.connections_max + set_.admin.connections_max + kOthers;
    CAUSEWAY_ASSIGN(const std::int64_t allowed, allow_open_files(needed));
    if (allowed < needed) {
      spdlog::warn("{} open files are allowed, {} wanted for {} connections; raise `ulimit -n`",
                   allowed, needed, set_.server.limits.connections_max);
    }
    return {};
  }

  void declare_weights() {
    auto& app = options();
    app.add_option(
           "--pool-memory-bytes", set_.pool_bytes,
           "host memory for the weights of all models, e.g. 64GB; default: what the machine "
           "or the container has left, less a sixteenth")
        .in_bytes()
        .group("Memory");
    app.add_option(
           "--weights-memory-bytes", set_.weights_bytes,
           "device memory that caches weights, e.g. 40GB; default on a GPU: what all models take, "
           "but at the start at most three quarters of what is left, and later as much as KV "
           "leaves; default on the CPU: none, weights are read in host memory")
        .in_bytes()
        .group("Memory");
    app.add_option("--max-resident-bytes", set_.catalogue.max_resident,
                   "MODEL=BYTES: device memory for one model's weights, e.g. big=40GB; weights "
                   "that exceed it are streamed at every step; may be repeated")
        .one_value()
        .group("Memory");
    app.add_option("--weights-ring-bytes", set_.ring_bytes,
                   "device memory through which the weights of a streamed model pass; default: "
                   "three of its layers, as part of the model's memory")
        .in_bytes()
        .group("Memory");
    app.add_option("--experts-policy", experts_policy_,
                   "of a mixture of experts that is larger than its memory of the device, which "
                   "experts it has: frequency, lru, activation, map; or whole: it is streamed in "
                   "whole layers")
        .one_of({"frequency", "lru", "activation", "map", "whole"})
        .group("Memory")
        .show_default();
  }

  void declare_slices() {
    auto& app = options();
    app.add_option("--device", set_.device, "device on which models run: cpu or cuda")
        .one_of({"cpu", "cuda"})
        .group("Memory")
        .show_default();
    app.add_option("--gpu", set_.gpu, "the GPU's number, or its name as in `nvidia-smi -L`")
        .check(check_gpu_option, "N|GPU-UUID")
        .group("Memory")
        .show_default();
    app.add_option(
           "--slices", set_.slices,
           "what the GPU is divided into, by processors, e.g. 2x56, 4x32 or 1x64,2x32; of "
           "several GPUs, e.g. 0:all;1:4x32 or GPU-8f3c:all; on the CPU by threads; auto: two "
           "halves where a model would miss its target between tokens beside another's prompts, "
           "else all, and changed while it serves when what is asked for changes (not with "
           "--isolate); MIG instances by name, e.g. MIG-8f3c;MIG-01, in a worker process each. A "
           "GPU's slices divide its memory, and a model is served by one of them")
        .group("Memory")
        .show_default();
    app.add_option("--resize-interval", set_.resize_interval_seconds,
                   "for --slices auto: least seconds between changes of slices; another division "
                   "must be better for a sixth of that time first")
        .range(0.1, 1e6)
        .group("Memory")
        .show_default();
    app.add_flag("--isolate", set_.isolate,
                 "run the slices of each GPU in a worker process, which is started again when it "
                 "dies or hangs; MIG instances always are")
        .group("Memory");
    app.add_option("--placement", placement_,
                   "how the slice for a model without requests is chosen: bandwidth, random, "
                   "dedicated, locality or shared")
        .group("Memory")
        .show_default();
    links_.declare(app, "Memory");
  }

  void declare_memory() {
    declare_weights();
    declare_slices();
    auto& app = options();
    app.add_option("--kv-cache-memory-bytes", set_.kv_bytes,
                   "memory for KV, e.g. 4GB; default on the CPU: 1GB; default on a GPU: what is "
                   "left at the start, and later as much as weights leave")
        .in_bytes()
        .group("Memory");
    app.add_option("--kv-host-memory-bytes", set_.kv_host_bytes,
                   "host memory to which KV of preempted requests and cached prefixes is moved, "
                   "e.g. 16GB, so that it need not be computed again; default: none")
        .in_bytes()
        .group("Memory");
    app.add_option("--gpu-memory-utilization", set_.gpu_memory_utilization,
                   "share of the GPU's memory that all processes on it together may use")
        .range(0.01, 1.0)
        .group("Memory")
        .show_default();
    app.add_option(
           "--kv-frame-bytes", set_.kv_frame_bytes,
           "size of a KV frame, the same for all models; choose a small one for tiny models")
        .in_bytes()
        .group("Memory")
        .show_default();
    app.add_flag("--no-enable-prefix-caching", set_.no_prefix_caching,
                 "do not share KV between requests that begin with the same tokens")
        .group("Memory");
  }

  void declare_scheduling() {
    auto& app = options();
    rotation_.declare_policy(app, "Scheduling");
    app.add_option("--max-num-seqs", set_.engine.core.schedule.running_max,
                   "most sequences that run at the same time")
        .positive()
        .group("Scheduling")
        .show_default();
    app.add_option("--max-num-batched-tokens", set_.engine.core.schedule.tokens_per_step_max,
                   "most tokens of a step; longer prompts are computed in chunks")
        .positive()
        .group("Scheduling")
        .show_default();
    chunk_.declare(app, "Scheduling");
    app.add_choice(
           "--step-start", set_.engine.core.step_start, kStepStarts,
           "when the first step of a model starts whose weights are still coming to the GPU: "
           "just-in-time; or, for comparisons, all-cached (after a full reload), at-once (at once, "
           "holding the GPU while it waits) or when-idle (at once if nothing else runs)")
        .group("Scheduling")
        .show_default("just-in-time");
    app.add_choice("--switching", set_.switching, kSwitching,
                   "what a switch between models moves: layers (as many as are needed); or, for "
                   "comparisons, reload (the whole model, before it computes) or sleep (the same, "
                   "and the former model is copied to host memory first)")
        .group("Scheduling")
        .show_default("layers");
    app.add_option("--max-queue", set_.engine.requests_max,
                   "most requests that run and wait, on each slice and for models that are being "
                   "loaded; further ones get 429")
        .positive()
        .group("Scheduling")
        .show_default();
    rotation_.declare(app, "Scheduling");
  }

  void declare_http() {
    auto& app = options();
    app.add_option("--host", set_.server.host, "address to listen on")
        .group("Server")
        .show_default();
    app.add_option("--port", set_.server.port, "port to listen on; 0: any free one")
        .group("Server")
        .show_default();
    app.add_option("--api-key", set_.server.api_keys, "key that clients must send; may be repeated")
        .one_value()  // one key each: what follows is the model
        .group("Server");
    app.add_flag("--trust-request-chat-template", set_.server.limits.api.chat_template,
                 "allow the request field chat_template, which replaces the model's template")
        .group("Server");
    app.add_option("--metrics-aliases", set_.metrics_aliases,
                   "vllm: /metrics repeats the metrics that vLLM has under vLLM's names, for its "
                   "dashboards")
        .one_of({"none", "vllm"})
        .show_default()
        .group("Server");
    app.add_option("--response-store-bytes", set_.response_bytes,
                   "memory for answers of /v1/responses, which clients can then read again and "
                   "continue (previous_response_id); 0: answers are not kept")
        .in_bytes()
        .group("Server")
        .show_default();
    app.add_option("--response-store-seconds", set_.response_seconds,
                   "how long an answer of /v1/responses is kept at most")
        .range(1.0, 1e6)
        .group("Server")
        .show_default();
    app.add_option("--seed", set_.server.seed,
                   "seed of the random numbers for requests without a seed")
        .group("Server");
    app.add_option("--shutdown-grace", set_.grace_seconds,
                   "seconds that running requests get after SIGTERM, SIGINT or SIGHUP")
        .range(0.0, 1e6)
        .group("Server")
        .show_default();
  }

  void declare_admin() {
    auto& app = options();
    app.add_option("--admin-port", set_.admin_port,
                   "port for administration: loading, unloading and pinning models, draining the "
                   "server; 0: any free one; default: none")
        .range(0, 65535)
        .group("Admin");
    app.add_option("--admin-host", set_.admin.host,
                   "address of the admin port; any but this machine's needs --admin-key")
        .group("Admin")
        .show_default();
    app.add_option("--admin-key", set_.admin.keys,
                   "key of the admin port, sent as a bearer token; may be repeated")
        .one_value()
        .group("Admin");
    app.add_flag("--allow-keep-alive", set_.server.limits.api.keep_alive,
                 "allow Ollama's request field keep_alive, which unloads the model some time after "
                 "the request, or pins it; with --admin-key the request must have that key in the "
                 "header x-admin-key")
        .group("Admin");
  }

  void declare_tracing() {
    auto& app = options();
    app.add_option(
           "--otlp-endpoint", set_.otlp_endpoint,
           "send a trace of every request to this OpenTelemetry collector, as OTLP in JSON, "
           "e.g. http://127.0.0.1:4318 (no https://); without a path: /v1/traces")
        .group("Tracing");
    app.add_option("--otlp-sample-ratio", set_.otlp_sample_ratio,
                   "share of requests that are traced; for a request with a header `traceparent` "
                   "that header decides")
        .range(0.0, 1.0)
        .group("Tracing")
        .show_default();
  }

  Status finish_tracing() {
    if (set_.otlp_endpoint.empty()) return {};
    auto endpoint = server::parse_otlp_endpoint(set_.otlp_endpoint);
    if (!endpoint.ok()) return endpoint.error().with_context("--otlp-endpoint");
    // Unlike that of every other process, or their traces would be one.
    std::random_device random;
    set_.server.traces = {.endpoint = std::move(endpoint).value(),
                          .sample_ratio = set_.otlp_sample_ratio,
                          .seed = (std::uint64_t{random()} << 32) | random()};
    return {};
  }

  // Ids of answers that are kept are unpredictable, as one is all that is needed to read an answer.
  // Others differ from those of every other start, whatever --seed says.
  void finish_ids() {
    std::random_device random;
    set_.server.id_seed = (std::uint64_t{random()} << 32) | random();
    set_.server.responses = {.bytes_max = static_cast<std::size_t>(set_.response_bytes),
                             .lifetime = nanos_from_seconds(set_.response_seconds),
                             .random = [] {
                               std::random_device random;
                               return (std::uint64_t{random()} << 32) | random();
                             }};
  }

  Status check_switching() const {
    if (set_.switching == slice::Switching::kLayers) return {};
    if (set_.isolate) {
      return invalid_argument(
          "--switching: worker processes bring layers; leave out --isolate and MIG instances");
    }
    if (set_.device == "cpu" && set_.weights_bytes == 0) {
      return invalid_argument(
          "--switching: weights are read where they are, and nothing is switched; give "
          "--weights-memory-bytes");
    }
    return {};
  }

  Status finish_admin() {
    if (set_.admin_port < 0) {
      if (set_.server.limits.api.keep_alive) {
        return invalid_argument("--allow-keep-alive is of no use without --admin-port");
      }
      if (set_.admin.keys.empty()) return {};
      return invalid_argument("--admin-key is of no use without --admin-port");
    }
    set_.admin.port = static_cast<std::uint16_t>(set_.admin_port);
    set_.server.admin = set_.admin;
    return {};
  }

  Status finish_options() {
    // A process has one of them.
    if (topology::names_instances(set_.slices)) set_.isolate = true;
    CAUSEWAY_TRY(finish_admin());
    CAUSEWAY_TRY(finish_tracing());
    finish_ids();
    set_.server.metrics.vllm_names = set_.metrics_aliases == "vllm";
    CAUSEWAY_ASSIGN(set_.experts, weights::parse_expert_policy(experts_policy_));
    CAUSEWAY_ASSIGN(set_.placement, fleet::find_placement(placement_));
    CAUSEWAY_TRY(check_switching());
    for (const std::uint64_t bytes :
         {set_.pool_bytes, set_.weights_bytes, set_.ring_bytes, set_.kv_bytes, set_.kv_frame_bytes,
          set_.kv_host_bytes, set_.response_bytes}) {
      if (bytes > kMemoryMax) {
        return invalid_argument("a memory size of " + std::to_string(bytes) +
                                " bytes is more than any machine has");
      }
    }
    if (options().count("--kv-cache-memory-bytes") > 0 && set_.kv_bytes == 0) {
      return invalid_argument(
          "--kv-cache-memory-bytes 0: no request can run without memory for KV; give a size, e.g. "
          "4GB, or leave the option out for the default");
    }
    schedule::Options& schedule = set_.engine.core.schedule;
    CAUSEWAY_TRY(rotation_.apply(schedule, set_.engine.core.rotation, kv_host()));
    CAUSEWAY_TRY(chunk_.apply(schedule));
    if (kv_host() > Bytes(0) && kv_host() < kv_frame()) {
      return invalid_argument("--kv-host-memory-bytes " + std::to_string(kv_host().count) +
                              " holds no KV frame of " + std::to_string(kv_frame().count) +
                              " bytes");
    }
    if (kv_host() > Bytes(0) && !schedule.rotates()) {
      return invalid_argument("--kv-host-memory-bytes would not be used: --scheduling-policy " +
                              std::string(schedule::name_of(schedule.policy)) +
                              " with --preemption recompute rotates no KV; choose "
                              "--preemption rotate or auto, or leave the memory out");
    }
    set_.engine.core.prefix_caching = !set_.no_prefix_caching;
    // Unpredictable, so that no client can craft prompts whose prefixes collide with another's.
    std::random_device random;
    set_.engine.core.prefix_hash_seed = (std::uint64_t{random()} << 32) | random();
    set_.server.version = version();
    return {};
  }

  // Whether memory was given as the models need it.
  Status check_models(ServedSlices& slices, const std::vector<fleet::CatalogueModel>& models,
                      Bytes pool) const {
    std::vector<ServedModel> served;
    for (const fleet::CatalogueModel& model : models) {
      const auto card = slices.card(model.source);
      if (!card.ok()) continue;
      served.push_back({.name = model.entry->name,
                        .bytes = card->layout.bytes,
                        .pinned = model.pinned,
                        .no_room = no_room_for(*card, slices.weight_room_most())});
    }
    CAUSEWAY_TRY(check_memory(
        served,
        {.pool = pool, .device = slices.weight_room(), .single = !set_.catalogue.model.empty()}));
    return check_any_fits(served, slices.count());
  }

  // Why it cannot even be streamed there; empty: it can.
  std::string no_room_for(const model::ModelCard& card, const slice::WeightRoom& room) const {
    if (room.budget == Bytes(0)) return {};  // weights are read where they are
    if (room.taken_by(card.layout.bytes) <= round_up(room.budget, room.extent)) return {};
    const auto streamed =
        weights::streamed_model(card.layout, card.reading,
                                {.extent = room.extent,
                                 .budget = room.budget,
                                 .ring = Bytes(static_cast<std::int64_t>(set_.ring_bytes)),
                                 .experts = set_.experts});
    return streamed.ok() ? "" : streamed.error().message;
  }

  const Clock& clock_;
  ServeOptions set_;
  LinkSettings links_;
  RotationOptions rotation_;
  ChunkOption chunk_;
  std::string experts_policy_ = "frequency";
  std::string placement_ = "bandwidth";
};

}  // namespace

std::unique_ptr<Command> make_serve(Options& parent, const Clock& clock) {
  return std::make_unique<Serve>(parent, clock);
}

}  // namespace causeway::app
