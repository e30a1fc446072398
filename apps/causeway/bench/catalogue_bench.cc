#include "bench/catalogue_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "bench/modelled_machine.h"
#include "bench/slice_parts.h"
#include "bench/token_times.h"
#include "device/memory_headroom.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"
#include "slice/model_home.h"

namespace causeway::bench {
namespace {

constexpr Nanos kPatience = seconds(120);
constexpr Tokens kContext(4096);

struct Asked {
  RequestId id;
  Nanos at;
};

class Bench {
 public:
  Bench(const CatalogueSettings& settings, const Clock& clock, Bytes pool)
      : settings_(settings), clock_(clock), home_(clock, pool), sink_(clock) {}

  Result<CatalogueReport> run();

 private:
  Status open();
  Status add(ModelId id);
  model::ModelConfig config_of(std::int64_t model) const;
  Result<Asked> ask(Random& random);
  Result<Holdings> holdings() const;
  void pause_until(Nanos when) const;
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const CatalogueSettings& settings_;
  const Clock& clock_;
  slice::ModelHome home_;
  TokenTimesSink sink_;
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<slice::Slice> slice_;
  std::vector<double> popularity_;  // cumulative
  std::int64_t next_request_ = 0;
  Bytes weights_;
};

// From half of the layers to all of them.
model::ModelConfig Bench::config_of(std::int64_t model) const {
  model::ModelConfig config = settings_.config;
  const std::int64_t half = std::max<std::int64_t>(1, config.layers / 2);
  config.layers = half + (config.layers - half) * ((7 * model + 3) % 11) / 10;
  return config;
}

Status Bench::open() {
  engine::EngineOptions engine;
  engine.core.schedule.tokens_per_step_max = 4096;
  if (settings_.device == "cpu") {
    slice::HostSliceOptions options{
        .kv = mib(256), .kv_frame = settings_.frame, .cache = settings_.cache, .engine = engine};
    CAUSEWAY_ASSIGN(
        machine_,
        open_modelled({.link = settings_.modelled_link, .links = settings_.links}, home_, clock_));
    CAUSEWAY_ASSIGN(slice_, slice::open_host_slice(options, *machine_, sink_));
    return {};
  }
  CAUSEWAY_ASSIGN(machine_, slice::Machine::open_gpus(settings_.links, home_, clock_));
  std::vector<slice::CudaCandidate> candidates;
  for (std::int64_t m = 0; m < settings_.models; ++m) {
    candidates.push_back({.id = ModelId(m),
                          .name = "model " + std::to_string(m),
                          .config = config_of(m),
                          .max_model_len = kContext});
  }
  CAUSEWAY_ASSIGN(slice_, slice::open_cuda_slice({.gpu = settings_.gpu,
                                                  .kv_frame = settings_.frame,
                                                  .weights = settings_.cache,
                                                  .engine = engine},
                                                 candidates, *machine_, sink_));
  return {};
}

Status Bench::add(ModelId id) {
  CAUSEWAY_ASSIGN(const model::ModelCard card,
                  add_random_model(id, config_of(id.value), kContext, home_, *slice_));
  weights_ += card.layout.bytes;
  return {};
}

Result<Asked> Bench::ask(Random& random) {
  const double draw = random.uniform() * popularity_.back();
  const auto chosen = std::upper_bound(popularity_.begin(), popularity_.end(), draw);
  request::Request request;
  request.id = RequestId(next_request_++);
  request.model =
      ModelId(std::min<std::int64_t>(chosen - popularity_.begin(), settings_.models - 1));
  for (std::int64_t i = 0; i < settings_.prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random.below(settings_.config.vocab)));
  }
  request.sampling.temperature = 0;
  request.max_tokens = Tokens(settings_.output);
  request.arrival = clock_.now();
  const Asked asked{request.id, request.arrival};
  CAUSEWAY_TRY(slice_->engine().submit(std::move(request)));
  return asked;
}

Result<Holdings> Bench::holdings() const {
  Holdings holdings;
  CAUSEWAY_ASSIGN(holdings.device, slice_->device_memory_used());
  holdings.pinned = home_.memory.total_bytes();
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    holdings.descriptors += entry.path().empty() ? 0 : 1;
  }
  return holdings;
}

void Bench::pause_until(Nanos when) const {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const Nanos left = when - clock_.now();
  if (left > Nanos(0)) (void)never.wait_for(lock, std::chrono::nanoseconds(left.count));
}

Result<CatalogueReport> Bench::run() {
  CatalogueReport report;
  CAUSEWAY_TRY(open());
  double sum = 0;
  for (std::int64_t m = 0; m < settings_.models; ++m) {
    say(fmt::format("making model {} of {}", m + 1, settings_.models));
    CAUSEWAY_TRY(add(ModelId(m)));
    popularity_.push_back(sum += std::pow(static_cast<double>(m + 1), -settings_.zipf));
  }
  say(fmt::format("requests for {:.0f} s", settings_.duration));
  Random random(settings_.seed);
  std::vector<Asked> asked;
  const Nanos begin = clock_.now();
  Nanos due = begin;
  bool early = false;
  while (true) {
    due = due + nanos_from_seconds(-std::log(1 - random.uniform()) / settings_.rate);
    const double at = to_seconds(due - begin);
    if (at > settings_.duration) break;
    pause_until(due);
    if (!early && at > settings_.duration / 5) {
      early = true;
      CAUSEWAY_ASSIGN(report.early, holdings());
    }
    const auto one = ask(random);
    report.requests += 1;
    if (one.ok()) {
      asked.push_back(*one);
    } else {
      report.failed += 1;
      report.first_error = one.error().message;
    }
  }
  for (const Asked& one : asked) {
    const auto times = sink_.wait(one.id, 1 << 20, kPatience);
    if (times.ok() && !times->at.empty()) {
      report.first_ms.push_back(to_millis(times->at.front() - one.at));
      continue;
    }
    report.failed += 1;
    report.first_error = times.ok() ? "no token came" : times.error().message;
  }
  report.seconds = to_seconds(clock_.now() - begin);
  CAUSEWAY_ASSIGN(report.late, holdings());
  std::sort(report.first_ms.begin(), report.first_ms.end());
  report.weights = weights_;
  report.cache = settings_.cache;
  report.crossed = slice_->link_bytes();
  return report;
}

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
  return sorted[at];
}

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; }

}  // namespace

Result<CatalogueReport> bench_catalogue(const CatalogueSettings& settings, const Clock& clock) {
  CAUSEWAY_ASSIGN(const device::MemoryHeadroom headroom, device::read_memory_headroom());
  return Bench(settings, clock, headroom.bytes).run();
}

void print_report(const CatalogueReport& report) {
  fmt::print("{} requests in {:.0f} s, {} failed{}{}\n", report.requests, report.seconds,
             report.failed, report.first_error.empty() ? "" : ": ", report.first_error);
  fmt::print("weights {:.1f} GB, cache {:.1f} GB, over the link {:.1f} GB\n",
             gigabytes(report.weights), gigabytes(report.cache), gigabytes(report.crossed));
  fmt::print("first token: median {:.0f} ms, p95 {:.0f} ms, p99 {:.0f} ms, most {:.0f} ms\n",
             percentile(report.first_ms, 0.5), percentile(report.first_ms, 0.95),
             percentile(report.first_ms, 0.99), percentile(report.first_ms, 1));
  fmt::print("{:<24} {:>12} {:>12}\n", "held", "after a fifth", "at the end");
  fmt::print("{:<24} {:>12.3f} {:>12.3f}\n", "device memory, GB", gigabytes(report.early.device),
             gigabytes(report.late.device));
  fmt::print("{:<24} {:>12.3f} {:>12.3f}\n", "host regions, GB", gigabytes(report.early.pinned),
             gigabytes(report.late.pinned));
  fmt::print("{:<24} {:>12} {:>12}\n", "descriptors", report.early.descriptors,
             report.late.descriptors);
}

nlohmann::ordered_json report_json(const CatalogueReport& report) {
  const auto of = [](const Holdings& held) {
    return nlohmann::ordered_json{{"device_bytes", held.device.count},
                                  {"host_bytes", held.pinned.count},
                                  {"descriptors", held.descriptors}};
  };
  return {{"requests", report.requests},
          {"failed", report.failed},
          {"first_error", report.first_error},
          {"seconds", report.seconds},
          {"weights_bytes", report.weights.count},
          {"cache_bytes", report.cache.count},
          {"link_bytes", report.crossed.count},
          {"first_token_ms",
           {{"p50", percentile(report.first_ms, 0.5)},
            {"p95", percentile(report.first_ms, 0.95)},
            {"p99", percentile(report.first_ms, 0.99)},
            {"most", percentile(report.first_ms, 1)}}},
          {"early", of(report.early)},
          {"late", of(report.late)}};
}

}  // namespace causeway::bench
