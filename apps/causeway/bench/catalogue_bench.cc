#include "bench/catalogue_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "bench/zipf.h"

namespace causeway::bench {
namespace {

constexpr Tokens kContext(4096);
constexpr std::int64_t kTokensPerStep = 4096;

struct Asked {
  RequestId id;
  Nanos at;
};

class CatalogueBench {
 public:
  CatalogueBench(const CatalogueSettings& settings, const Clock& clock, Bytes pool)
      : settings_(settings),
        clock_(clock),
        home_(clock, pool),
        local_(home_, clock),
        popularity_(settings.models, settings.zipf) {}

  Result<CatalogueReport> run();

 private:
  Status open();
  model::ModelConfig config_of(std::int64_t model) const;
  Result<Asked> ask(Random& random);
  Result<Holdings> holdings();
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const CatalogueSettings& settings_;
  const Clock& clock_;
  slice::ModelHome home_;
  LocalSlice local_;
  Zipf popularity_;
};

// From half of the layers to all of them.
model::ModelConfig CatalogueBench::config_of(std::int64_t model) const {
  model::ModelConfig config = settings_.config;
  const std::int64_t half = std::max<std::int64_t>(1, config.layers / 2);
  config.layers = half + (config.layers - half) * ((7 * model + 3) % 11) / 10;
  return config;
}

Status CatalogueBench::open() {
  SliceSettings settings = settings_.slice;
  settings.engine.core.schedule.tokens_per_step_max = kTokensPerStep;
  std::vector<BenchModel> models;
  for (std::int64_t m = 0; m < settings_.models; ++m) {
    models.push_back({ModelId(m), config_of(m), kContext});
  }
  return local_.open(settings, std::move(models));
}

Result<Asked> CatalogueBench::ask(Random& random) {
  const ModelId model(popularity_.choose(random));
  const Nanos now = clock_.now();
  CAUSEWAY_ASSIGN(const RequestId id, local_.submit(model, settings_.prompt, settings_.output));
  return Asked{id, now};
}

Result<Holdings> CatalogueBench::holdings() {
  Holdings holdings;
  CAUSEWAY_ASSIGN(holdings.device, local_.slice().device_memory_used());
  holdings.pinned = home_.memory.total_bytes();
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    holdings.descriptors += entry.path().empty() ? 0 : 1;
  }
  return holdings;
}

Result<CatalogueReport> CatalogueBench::run() {
  CatalogueReport report;
  CAUSEWAY_TRY(open());
  for (std::int64_t m = 0; m < settings_.models; ++m) {
    say(fmt::format("making model {} of {}", m + 1, settings_.models));
    CAUSEWAY_ASSIGN(const model::ModelCard card, local_.add(ModelId(m)));
    report.weights += card.layout.bytes;
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
    pause_until(due, clock_);
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
    const auto times = local_.sink().wait_for_end(one.id, kPatience);
    if (times.ok() && !times->at.empty()) {
      report.first.add(to_millis(times->at.front() - one.at));
      continue;
    }
    report.failed += 1;
    report.first_error = times.ok() ? "no token came" : times.error().message;
  }
  report.seconds = to_seconds(clock_.now() - begin);
  CAUSEWAY_ASSIGN(report.late, holdings());
  report.cache = settings_.slice.weights;
  report.crossed = local_.slice().link_bytes();
  return report;
}

// At each whole percent: what a chart needs.
std::vector<double> by_percent(const Samples& samples) {
  std::vector<double> values;
  for (int percent = 0; percent <= 100; ++percent) values.push_back(samples.at(percent / 100.0));
  return values;
}

}  // namespace

Result<CatalogueReport> bench_catalogue(const CatalogueSettings& settings, const Clock& clock) {
  CAUSEWAY_ASSIGN(const Bytes home, settings.slice.home());
  return CatalogueBench(settings, clock, home).run();
}

void print_report(const CatalogueReport& report) {
  fmt::print("{} requests in {:.0f} s, {} failed{}{}\n", report.requests, report.seconds,
             report.failed, report.first_error.empty() ? "" : ": ", report.first_error);
  fmt::print("weights {:.1f} GB, cache {:.1f} GB, over the link {:.1f} GB\n",
             to_gigabytes(report.weights), to_gigabytes(report.cache),
             to_gigabytes(report.crossed));
  fmt::print("first token: median {:.0f} ms, p95 {:.0f} ms, p99 {:.0f} ms, most {:.0f} ms\n",
             report.first.at(0.5), report.first.at(0.95), report.first.at(0.99),
             report.first.most());
  fmt::print("{:<24} {:>12} {:>12}\n", "held", "after a fifth", "at the end");
  fmt::print("{:<24} {:>12.3f} {:>12.3f}\n", "device memory, GB", to_gigabytes(report.early.device),
             to_gigabytes(report.late.device));
  fmt::print("{:<24} {:>12.3f} {:>12.3f}\n", "host regions, GB", to_gigabytes(report.early.pinned),
             to_gigabytes(report.late.pinned));
  fmt::print("{:<24} {:>12} {:>12}\n", "descriptors", report.early.descriptors,
             report.late.descriptors);
}

nlohmann::ordered_json report_json(const CatalogueReport& report) {
  const auto of = [](const Holdings& held) {
    return nlohmann::ordered_json{{"device_bytes", held.device.count},
                                  {"host_bytes", held.pinned.count},
                                  {"descriptors", held.descriptors}};
  };
  return {{"bench", "catalogue"},
          {"requests", report.requests},
          {"failed", report.failed},
          {"first_error", report.first_error},
          {"seconds", report.seconds},
          {"weights_bytes", report.weights.count},
          {"cache_bytes", report.cache.count},
          {"link_bytes", report.crossed.count},
          {"first_token_ms",
           {{"p50", report.first.at(0.5)},
            {"p95", report.first.at(0.95)},
            {"p99", report.first.at(0.99)},
            {"most", report.first.most()},
            {"by_percent", by_percent(report.first)}}},
          {"early", of(report.early)},
          {"late", of(report.late)}};
}

}  // namespace causeway::bench
