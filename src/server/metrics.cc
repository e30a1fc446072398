#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace causeway::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets& ttft_buckets() {
  static const Buckets buckets = {0.001, 0.005, 0.01, 0.02,  0.04,  0.06,  0.08, 0.1,
                                  0.25,  0.5,   0.75, 1.0,   2.5,   5.0,   7.5,  10.0,
                                  20.0,  40.0,  80.0, 160.0, 640.0, 2560.0};
  return buckets;
}
const Buckets& token_buckets() {
  static const Buckets buckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                  0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
  return buckets;
}
const Buckets& request_buckets() {
  static const Buckets buckets = {0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                  5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                  60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  return buckets;
}
const Buckets& length_buckets() {
  static const Buckets buckets = {1,    2,    5,    10,    20,    50,    100,    200,    500,
                                  1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
  return buckets;
}

// Buckets for the parameter `n`.
const Buckets& choices_buckets() {
  static const Buckets buckets = {1, 2, 5, 10, 20};
  return buckets;
}

const Buckets& switch_buckets() {
  static const Buckets buckets = {0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2,  0.3,
                                  0.4,   0.5,  0.75, 1.0,  1.5,  2.5,  5.0, 10.0, 20.0, 60.0};
  return buckets;
}

// Behind the target, in seconds; below zero: ahead of it.
const Buckets& lag_buckets() {
  static const Buckets buckets = {-60,  -10, -5,  -2.5, -1,  -0.5, -0.1, -0.02, 0,
                                  0.02, 0.1, 0.5, 1,    2.5, 5,    10,   60,    600};
  return buckets;
}

constexpr std::string_view kPrefix = "causeway:";

// What vLLM counts under the same name behind its own prefix.
constexpr std::string_view kVllmNames[] = {
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "num_preemptions_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "request_success_total",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_max_num_generation_tokens",
    "request_params_n",
    "request_params_max_tokens",
};

// The families that vLLM has, too, once more under its names.
void add_vllm_names(std::vector<prometheus::MetricFamily>& families) {
  const std::size_t own = families.size();
  for (std::size_t i = 0; i < own; ++i) {
    const std::string name = families[i].name.substr(kPrefix.size());
    if (std::find(std::begin(kVllmNames), std::end(kVllmNames), name) == std::end(kVllmNames)) {
      continue;
    }
    families.push_back(families[i]);
    families.back().name = "vllm:" + name;
  }
}

constexpr std::array<const char*, 4> kEndings = {"stop", "length", "abort", "error"};

// Counters that the fleet keeps, followed by ours.
class MetricFollower {
 public:
  // `unit`: what one of the fleet's is of ours.
  explicit MetricFollower(Counter& counter, double unit = 1) : counter_(counter), unit_(unit) {}
  void follow(std::int64_t total) {
    if (total > seen_) counter_.Increment(unit_ * static_cast<double>(total - seen_));
    seen_ = std::max(seen_, total);
  }

 private:
  Counter& counter_;
  const double unit_;
  std::int64_t seen_ = 0;
};

// All families; a model's series are made from them.
struct Families {
  explicit Families(prometheus::Registry& registry) : registry_(registry) {}
  prometheus::Family<Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
  }
  prometheus::Family<Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  prometheus::Family<Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
  }
  prometheus::Registry& registry_;

  prometheus::Family<Gauge>& running =
      gauge("causeway:num_requests_running", "Requests that the engine is working on.");
  prometheus::Family<Gauge>& waiting =
      gauge("causeway:num_requests_waiting", "Requests that wait for their turn.");
  prometheus::Family<Gauge>& rotary =
      gauge("causeway:num_requests_rotary", "Requests whose KV waits in host memory.");
  prometheus::Family<Gauge>& kv_host_usage =
      gauge("causeway:kv_host_usage_perc", "Part of the host memory for KV in use; 1 is all.");
  prometheus::Family<Counter>& rotations = counter(
      "causeway:kv_rotations_total", "Requests whose KV went to host memory, to come back.");
  prometheus::Family<Counter>& rotation_blocks = counter(
      "causeway:kv_rotation_blocks_total",
      "Copies of blocks of KV between devices and host memory that have begun, by direction "
      "and reason.");
  prometheus::Family<Counter>& copies_failed =
      counter("causeway:kv_copies_failed_total", "Copies of KV that failed.");
  prometheus::Family<Gauge>& stranded =
      gauge("causeway:kv_frames_stranded",
            "KV frames that nothing can use, because a copy that was given up has not ended.");
  prometheus::Family<Gauge>& kv_usage =
      gauge("causeway:kv_cache_usage_perc", "Part of the KV frames in use; 1 is all.");
  prometheus::Family<Counter>& preemptions =
      counter("causeway:num_preemptions_total", "Requests that had to give up their KV.");
  prometheus::Family<Counter>& prefix_queries = counter(
      "causeway:prefix_cache_queries_total", "Prompt tokens looked for in the prefix cache.");
  prometheus::Family<Counter>& prefix_hits = counter(
      "causeway:prefix_cache_hits_total",
      "Prompt tokens found in the prefix cache: in the device's memory, or in host memory.");
  prometheus::Family<Counter>& prompt_tokens =
      counter("causeway:prompt_tokens_total", "Prompt tokens processed.");
  prometheus::Family<Counter>& generation_tokens =
      counter("causeway:generation_tokens_total", "Tokens generated.");
  prometheus::Family<Counter>& success =
      counter("causeway:request_success_total", "Requests ended, by how.");
  prometheus::Family<Histogram>& ttft =
      histogram("causeway:time_to_first_token_seconds", "From arrival to the first token.");
  prometheus::Family<Histogram>& inter_token =
      histogram("causeway:inter_token_latency_seconds", "From one token to the next.");
  prometheus::Family<Histogram>& tpot = histogram("causeway:request_time_per_output_token_seconds",
                                                  "A request's mean from token to token.");
  prometheus::Family<Histogram>& e2e =
      histogram("causeway:e2e_request_latency_seconds", "From arrival to the last token.");
  prometheus::Family<Histogram>& queue =
      histogram("causeway:request_queue_time_seconds", "From arrival to when the engine began.");
  prometheus::Family<Histogram>& inference =
      histogram("causeway:request_inference_time_seconds",
                "From when the engine began with a request to its last token.");
  prometheus::Family<Histogram>& prefill =
      histogram("causeway:request_prefill_time_seconds",
                "From when the engine began with a request to its first token.");
  prometheus::Family<Histogram>& decode = histogram("causeway:request_decode_time_seconds",
                                                    "From a request's first token to its last.");
  prometheus::Family<Histogram>& prompt_length =
      histogram("causeway:request_prompt_tokens", "Prompt tokens of a request.");
  prometheus::Family<Histogram>& generated_length =
      histogram("causeway:request_generation_tokens", "Tokens generated for a request.");
  prometheus::Family<Histogram>& longest = histogram("causeway:request_max_num_generation_tokens",
                                                     "Tokens of the longest choice of a prompt.");
  prometheus::Family<Histogram>& choices =
      histogram("causeway:request_params_n", "Choices asked for, n, of a prompt.");
  prometheus::Family<Histogram>& max_tokens =
      histogram("causeway:request_params_max_tokens", "Tokens that a choice of a prompt may have.");
  prometheus::Family<Counter>& slo_attained =
      counter("causeway:slo_attained_total", "Requests within their target, by kind.");
  prometheus::Family<Counter>& slo_missed =
      counter("causeway:slo_missed_total", "Requests beyond their target, by kind.");
  prometheus::Family<Histogram>& lags =
      histogram("causeway:slo_lag_seconds",
                "How far a request is behind its target, below zero ahead of it: when it is first "
                "scheduled, at its first token, and over all further tokens when it has finished.");
  prometheus::Family<Gauge>& resident =
      gauge("causeway:model_resident_bytes", "Weights of a model in host memory and on devices.");
  prometheus::Family<Gauge>& predicted_tpot =
      gauge("causeway:predicted_time_per_output_token_seconds",
            "What a token of a model is expected to take that is streamed, or served by best "
            "effort because more is asked of its slice or link than these have; 0: neither.");
  prometheus::Family<Gauge>& best_effort =
      gauge("causeway:best_effort",
            "1: a model's tokens are expected to take longer than its target; 0: they are not.");
  prometheus::Family<Histogram>& switches = histogram(
      "causeway:model_switch_seconds",
      "From a request that found weights missing on the device to the model's first token.");
  prometheus::Family<Counter>& device_busy =
      counter("causeway:device_busy_seconds_total", "How long devices ran steps.");
  prometheus::Family<Counter>& link_bytes =
      counter("causeway:link_bytes_total", "Bytes over the links between host and devices.");
  prometheus::Family<Counter>& spans_exported = counter(
      "causeway:trace_spans_exported_total", "Spans of traces that the collector has taken.");
  prometheus::Family<Counter>& spans_dropped =
      counter("causeway:trace_spans_dropped_total",
              "Spans of traces that were not sent, or not taken, by reason.");
  prometheus::Family<Counter>& resumed =
      counter("causeway:requests_resumed_total",
              "Requests that were sent again because the slice that had them was lost.");
};

struct SloSeries {
  Counter& attained;
  Counter& missed;
  void count(Nanos measured, Nanos target) {
    if (measured.count >= 0) (measured <= target ? attained : missed).Increment();
  }
};

struct ModelSeries {
  using Labels = prometheus::Labels;
  static Labels with(const Labels& base, const char* name, const char* value) {
    Labels labels = base;
    labels[name] = value;
    return labels;
  }

  ModelSeries(Families& all, const Labels& label)
      : running(all.running.Add(label)),
        waiting(all.waiting.Add(label)),
        rotary(all.rotary.Add(label)),
        kv_usage(all.kv_usage.Add(label)),
        preemptions(all.preemptions.Add(label)),
        rotations(all.rotations.Add(label)),
        prefix_queries(all.prefix_queries.Add(label)),
        prefix_hits_hbm(all.prefix_hits.Add(with(label, "tier", "hbm"))),
        prefix_hits_host(all.prefix_hits.Add(with(label, "tier", "host"))),
        prompt_tokens(all.prompt_tokens.Add(label)),
        generation_tokens(all.generation_tokens.Add(label)),
        ttft(all.ttft.Add(label, ttft_buckets())),
        inter_token(all.inter_token.Add(label, token_buckets())),
        tpot(all.tpot.Add(label, token_buckets())),
        e2e(all.e2e.Add(label, request_buckets())),
        queue(all.queue.Add(label, request_buckets())),
        inference(all.inference.Add(label, request_buckets())),
        prefill(all.prefill.Add(label, request_buckets())),
        decode(all.decode.Add(label, request_buckets())),
        prompt_length(all.prompt_length.Add(label, length_buckets())),
        generated_length(all.generated_length.Add(label, length_buckets())),
        longest(all.longest.Add(label, length_buckets())),
        choices(all.choices.Add(label, choices_buckets())),
        max_tokens(all.max_tokens.Add(label, length_buckets())),
        resident_host(all.resident.Add(with(label, "tier", "host"))),
        resident_device(all.resident.Add(with(label, "tier", "device"))),
        predicted_tpot(all.predicted_tpot.Add(label)),
        best_effort(all.best_effort.Add(label)),
        switches(all.switches.Add(with(label, "from", "host"), switch_buckets())),
        lag_scheduled(all.lags.Add(with(label, "at", "scheduled"), lag_buckets())),
        lag_first_token(all.lags.Add(with(label, "at", "first_token"), lag_buckets())),
        lag_finished(all.lags.Add(with(label, "at", "finished"), lag_buckets())),
        slo_ttft{all.slo_attained.Add(with(label, "kind", "ttft")),
                 all.slo_missed.Add(with(label, "kind", "ttft"))},
        slo_tpot{all.slo_attained.Add(with(label, "kind", "tpot")),
                 all.slo_missed.Add(with(label, "kind", "tpot"))} {
    for (std::size_t i = 0; i < kEndings.size(); ++i) {
      endings[i] = &all.success.Add(with(label, "finished_reason", kEndings[i]));
    }
  }

  // However the request ended: a client that leaves because nothing came has not been served in
  // time.
  void count_first_token(const Finished& measured) {
    const Nanos target = measured.slo.ttft;
    if (measured.queued.count >= 0) lag_scheduled.Observe(to_seconds(measured.queued - target));
    if (measured.ttft.count >= 0) {
      lag_first_token.Observe(to_seconds(measured.ttft - target));
      slo_ttft.count(measured.ttft, target);
    } else if (measured.e2e > target) {
      slo_ttft.missed.Increment();
    }
  }

  Gauge &running, &waiting, &rotary, &kv_usage;
  MetricFollower preemptions, rotations, prefix_queries, prefix_hits_hbm, prefix_hits_host;
  Counter &prompt_tokens, &generation_tokens;
  Histogram &ttft, &inter_token, &tpot, &e2e, &queue, &inference, &prefill, &decode;
  Histogram &prompt_length, &generated_length, &longest, &choices, &max_tokens;
  Gauge &resident_host, &resident_device;
  Gauge &predicted_tpot, &best_effort;
  Histogram& switches;
  Histogram &lag_scheduled, &lag_first_token, &lag_finished;
  SloSeries slo_ttft, slo_tpot;
  std::array<Counter*, kEndings.size()> endings{};
};

// Series of the whole fleet.
struct CopySeries {
  explicit CopySeries(Families& all)
      : usage(all.kv_host_usage.Add({})),
        stranded(all.stranded.Add({})),
        failed(all.copies_failed.Add({})),
        eager_out(of(all, "out", "eager")),
        rotation_out(of(all, "out", "rotation")),
        rotation_in(of(all, "in", "rotation")),
        prefix_in(of(all, "in", "prefix")) {}
  static Counter& of(Families& all, const char* direction, const char* reason) {
    return all.rotation_blocks.Add({{"direction", direction}, {"reason", reason}});
  }
  void follow(const request::Observation& seen) {
    const auto total = static_cast<double>(std::max<std::int64_t>(seen.twins_total, 1));
    usage.Set(static_cast<double>(seen.twins_used) / total);
    stranded.Set(static_cast<double>(seen.frames_stranded));
    failed.follow(seen.kv_copies.failed);
    eager_out.follow(seen.kv_copies.eager_out);
    rotation_out.follow(seen.kv_copies.rotation_out);
    rotation_in.follow(seen.kv_copies.rotation_in);
    prefix_in.follow(seen.kv_copies.prefix_in);
  }

  Gauge &usage, &stranded;
  MetricFollower failed, eager_out, rotation_out, rotation_in, prefix_in;
};

struct TraceSeries {
  explicit TraceSeries(Families& all)
      : exported(all.spans_exported.Add({})),
        full(of(all, "queue_full")),
        failed(of(all, "export_failed")),
        rejected(of(all, "rejected")),
        stopped(of(all, "shutdown")) {}
  static Counter& of(Families& all, const char* reason) {
    return all.spans_dropped.Add({{"reason", reason}});
  }
  void follow(const TraceCounts& counts) {
    exported.follow(counts.exported);
    full.follow(counts.dropped_full);
    failed.follow(counts.dropped_failed);
    rejected.follow(counts.dropped_rejected);
    stopped.follow(counts.dropped_stopped);
  }

  MetricFollower exported, full, failed, rejected, stopped;
};

void observe(Histogram& histogram, Nanos time) {
  if (time.count >= 0) histogram.Observe(to_seconds(time));
}

// Where the engine said when it began.
void observe_stages(ModelSeries& series, const Finished& measured) {
  if (measured.ttft.count < 0) return;
  observe(series.decode, measured.e2e - measured.ttft);
  if (measured.queued.count < 0) return;
  observe(series.prefill, measured.ttft - measured.queued);
  observe(series.inference, measured.e2e - measured.queued);
}

}  // namespace

class Metrics::Impl {
 public:
  Impl(const fleet::Fleet& fleet, const MetricsOptions& options)
      : options_(options),
        families_(registry_),
        link_bytes_(families_.link_bytes.Add({{"direction", "in"}, {"purpose", "weights"}})),
        device_busy_(families_.device_busy.Add({}), 1e-9),
        resumed_(families_.resumed.Add({})),
        copies_(families_),
        traces_(families_) {
    for (const fleet::CatalogueEntry* model : fleet.catalogue()) of(*model);
  }

  ModelSeries& of(const fleet::CatalogueEntry& model) {
    if (ModelSeries* const there = find(model.id)) return *there;
    const std::lock_guard lock(models_mutex_);
    const prometheus::Labels labels{{"model_name", model.name}};
    return models_.try_emplace(model.id, families_, labels).first->second;
  }
  // nullptr: it has none.
  ModelSeries* find(ModelId model) {
    const std::shared_lock lock(models_mutex_);
    const auto found = models_.find(model);
    return found == models_.end() ? nullptr : &found->second;
  }

  void observe_fleet(const fleet::Fleet& fleet) {
    const std::lock_guard lock(mutex_);
    const request::Observation all = fleet.observe();
    link_bytes_.follow(all.link_bytes.count);
    device_busy_.follow(all.device_busy.count);
    resumed_.follow(all.requests_resumed);
    copies_.follow(all);
    for (const fleet::CatalogueEntry* model : fleet.catalogue()) of(*model);
    for (const auto& [model, seen] : fleet.observe_models()) {
      ModelSeries* const there = find(model);
      if (there == nullptr) continue;  // it has come since
      ModelSeries& series = *there;
      series.running.Set(static_cast<double>(seen.requests_running));
      series.waiting.Set(static_cast<double>(seen.requests_waiting));
      series.rotary.Set(static_cast<double>(seen.requests_rotary));
      const auto total = static_cast<double>(std::max<std::int64_t>(seen.frames_total, 1));
      series.kv_usage.Set(static_cast<double>(seen.frames_used) / total);
      series.preemptions.follow(seen.preemptions);
      series.rotations.follow(seen.rotations);
      series.prefix_queries.follow(seen.prefix_queried_tokens);
      series.prefix_hits_hbm.follow(seen.prefix_hit_tokens - seen.prefix_host_tokens);
      series.prefix_hits_host.follow(seen.prefix_host_tokens);
      const fleet::ModelStatus status = fleet.status(model);
      series.resident_host.Set(static_cast<double>(status.host_bytes.count));
      series.resident_device.Set(static_cast<double>(status.device_bytes.count));
      series.predicted_tpot.Set(to_seconds(status.predicted_tpot));
      series.best_effort.Set(status.best_effort ? 1 : 0);
    }
  }

  void observe_traces(const TraceCounts& counts) {
    const std::lock_guard lock(mutex_);
    traces_.follow(counts);
  }

  std::string text() const {
    std::vector<prometheus::MetricFamily> all = registry_.Collect();
    if (options_.vllm_names) add_vllm_names(all);
    return prometheus::TextSerializer().Serialize(all);
  }

 private:
  const MetricsOptions options_;
  prometheus::Registry registry_;
  Families families_;
  MetricFollower link_bytes_;
  MetricFollower device_busy_;
  MetricFollower resumed_;
  CopySeries copies_;
  TraceSeries traces_;
  std::shared_mutex models_mutex_;                   // guards the map, which only grows
  std::unordered_map<ModelId, ModelSeries> models_;  // they stay where they are
  std::mutex mutex_;                                 // one scrape at a time follows the fleet
};

Metrics::Metrics(const fleet::Fleet& fleet, const MetricsOptions& options)
    : impl_(std::make_unique<Impl>(fleet, options)) {}
Metrics::~Metrics() = default;

void Metrics::first_token(const fleet::CatalogueEntry& model, Nanos after) {
  observe(impl_->of(model).ttft, after);
}
void Metrics::next_token(const fleet::CatalogueEntry& model, Nanos after) {
  observe(impl_->of(model).inter_token, after);
}
void Metrics::tokens(const fleet::CatalogueEntry& model, std::int64_t prompt,
                     std::int64_t generated) {
  ModelSeries& series = impl_->of(model);
  series.prompt_tokens.Increment(static_cast<double>(prompt));
  series.generation_tokens.Increment(static_cast<double>(generated));
}

void Metrics::finished(const fleet::CatalogueEntry& model, const Finished& measured) {
  ModelSeries& series = impl_->of(model);
  series.endings[static_cast<std::size_t>(measured.ending)]->Increment();
  series.count_first_token(measured);
  if (measured.ending == Ending::kAbort || measured.ending == Ending::kError) return;
  observe(series.e2e, measured.e2e);
  observe(series.queue, measured.queued);
  observe_stages(series, measured);
  observe(series.tpot, measured.tpot);
  series.prompt_length.Observe(static_cast<double>(measured.prompt_tokens));
  series.generated_length.Observe(static_cast<double>(measured.generated_tokens));
  series.slo_tpot.count(measured.tpot, measured.slo.tpot);
  if (measured.tpot.count < 0) return;
  const std::int64_t further = measured.generated_tokens - 1;
  series.lag_finished.Observe(to_seconds(measured.tpot - measured.slo.tpot) *
                              static_cast<double>(further));
}

void Metrics::prompt_finished(const fleet::CatalogueEntry& model, const FinishedPrompt& measured) {
  ModelSeries& series = impl_->of(model);
  series.longest.Observe(static_cast<double>(measured.generated_tokens_max));
  series.choices.Observe(static_cast<double>(measured.choices));
  series.max_tokens.Observe(static_cast<double>(measured.max_tokens));
}

void Metrics::switched(const fleet::CatalogueEntry& model, Nanos took) {
  observe(impl_->of(model).switches, took);
}

void Metrics::traces(const TraceCounts& counts) { impl_->observe_traces(counts); }

std::string Metrics::exposition(const fleet::Fleet& fleet) {
  impl_->observe_fleet(fleet);
  return impl_->text();
}

}  // namespace causeway::server
