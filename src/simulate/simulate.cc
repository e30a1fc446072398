#include "simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"

namespace causeway::simulate {
namespace {

constexpr int kStepsInFlight = 2;  // as on a GPU

struct Live {
  const Arrival* arrival = nullptr;
  Nanos first_token;
  Nanos last_token;
  std::int64_t tokens = 0;
  std::int64_t late_gaps = 0;
};

class Simulation {
 public:
  Simulation(const SimulationOptions& options, const Workload& workload);
  Status add_models();
  SimulationReport run();

 private:
  engine::CoreOptions core_options() const;
  SimulatedExecutorOptions executor_options() const;
  weights::ResidencyOptions residency_options() const;
  std::unique_ptr<SimulatedMover> make_mover() const;
  // How its weights lie: as a whole, or some of them and a ring.
  Result<weights::CachedModel> placed(const ModelShape& shape) const;
  bool next_event();
  void arrive();
  void record(const request::Output& output);
  void record_tokens(const request::Output& output, Live& live, LatencyReport& report);
  void record_end(const Live& live, LatencyReport& report) const;
  LatencyReport& report_of(const Live& live) { return report_.models[live.arrival->model].second; }
  void add_up();

  const SimulationOptions& options_;
  const Workload& workload_;
  ManualClock clock_;
  // Null where the device's memory is the home of the weights.
  std::unique_ptr<SimulatedMover> mover_;
  std::unique_ptr<weights::WeightCache> cache_;
  SimulatedExecutor executor_;
  engine::EngineCore core_;
  std::size_t arrived_ = 0;
  std::unordered_map<RequestId, Live> live_;
  Nanos last_end_;
  SimulationReport report_;
};

engine::CoreOptions Simulation::core_options() const {
  return {.frames = options_.kv_memory / options_.frame,
          .prefix_caching = options_.prefix_caching,
          .twins = options_.kv_host_memory / options_.frame,
          .frame = options_.frame,
          .rotation = options_.rotation,
          .schedule = options_.schedule,
          .step_start = options_.step_start};
}

SimulatedExecutorOptions Simulation::executor_options() const {
  SimulatedExecutorOptions executor{.profile = options_.profile,
                                    .faults = options_.faults,
                                    .seed = options_.seed,
                                    .steps_in_flight_max = kStepsInFlight};
  if (options_.kv_host_memory > Bytes(0)) {
    executor.copies = {.frame = options_.frame,
                       .bytes_in_per_second = options_.profile.kv_in_bytes_per_second,
                       .bytes_out_per_second = options_.profile.kv_out_bytes_per_second,
                       .error_rate = options_.faults.copy_error_rate,
                       .seed = options_.seed};
  }
  return executor;
}

weights::ResidencyOptions Simulation::residency_options() const {
  weights::ResidencyOptions residency = options_.residency;
  residency.extents = (options_.profile.memory - options_.kv_memory) / residency.extent;
  return residency;
}

std::unique_ptr<SimulatedMover> Simulation::make_mover() const {
  if (options_.profile.link_bytes_per_second <= 0) return nullptr;
  const weights::ResidencyOptions residency = residency_options();
  const SimulatedMoverOptions mover{.bytes_per_second = options_.profile.link_bytes_per_second,
                                    .error_rate = options_.faults.copy_error_rate,
                                    .extent = residency.extent,
                                    .extents_max = residency.extents,
                                    .seed = options_.seed};
  return std::make_unique<SimulatedMover>(mover, clock_);
}

Simulation::Simulation(const SimulationOptions& options, const Workload& workload)
    : options_(options),
      workload_(workload),
      mover_(make_mover()),
      cache_(mover_ ? std::make_unique<weights::WeightCache>(residency_options(), *mover_)
                    : nullptr),
      executor_(executor_options(), clock_, mover_.get()),
      core_(core_options(), executor_, cache_.get()) {
  report_.profile = options.profile.name;
  for (const ModelShape& shape : options.models) report_.models.push_back({shape.name, {}});
}

Result<weights::CachedModel> Simulation::placed(const ModelShape& shape) const {
  const weights::ResidencyOptions residency = residency_options();
  const Bytes extent = residency.extent, all = extent * residency.extents;
  const Bytes most = shape.max_resident > Bytes(0) ? std::min(shape.max_resident, all) : all;
  if (round_up(shape.layout.bytes, extent) <= round_up(most, extent)) return shape.cached;
  const auto streamed = weights::streamed_model(
      shape.layout, shape.reading, {.extent = extent, .budget = most, .ring = options_.ring});
  if (!streamed.ok()) return streamed.error().with_context(shape.name);
  return *streamed;
}

Status Simulation::add_models() {
  for (std::size_t i = 0; i < options_.models.size(); ++i) {
    ModelShape shape = options_.models[i];
    const ModelId id(static_cast<std::int64_t>(i));
    engine::ModelFacts facts{.tokens_per_block = shape.tokens_per_block,
                             .max_model_len = shape.max_model_len,
                             .vocab = shape.vocab,
                             .alpha = shape.rotary_alpha,
                             .step_min = step_min(shape, options_.profile),
                             .seconds_per_token = seconds_per_token(shape, options_.profile)};
    if (cache_) {
      CAUSEWAY_ASSIGN(shape.cached, placed(shape));
      facts.weights = shape.cached;
      mover_->add_model(id, shape.cached);
    }
    executor_.add_model(id, shape, cache_ ? WeightSource::kCache : WeightSource::kMemory);
    CAUSEWAY_TRY(core_.add_model(id, facts));
  }
  return {};
}

void Simulation::arrive() {
  const auto index = static_cast<std::int64_t>(arrived_);
  const Arrival& arrival = workload_[arrived_++];
  LatencyReport& report = report_.models[arrival.model].second;
  request::Request request;
  request.id = RequestId(index);
  request.model = ModelId(static_cast<std::int64_t>(arrival.model));
  request.prompt = prompt_tokens(arrival, index, options_.models[arrival.model].vocab);
  request.max_tokens = arrival.output;
  request.slo = arrival.slo;
  request.priority = arrival.priority;
  request.arrival = arrival.at;
  report.requests += 1;
  if (core_.submit(std::move(request), clock_.now()).ok()) {
    live_[RequestId(index)].arrival = &arrival;
  } else {
    report.refused += 1;
  }
}

void Simulation::record_end(const Live& live, LatencyReport& report) const {
  const Nanos ttft = live.first_token - live.arrival->at;
  const bool ttft_met = ttft <= live.arrival->slo.ttft;
  bool tpot_met = true;
  report.completed += 1;
  report.ttft.record(ttft.count);
  report.e2e.record((clock_.now() - live.arrival->at).count);
  if (live.tokens > 1) {
    const Nanos tpot = (live.last_token - live.first_token) / (live.tokens - 1);
    report.tpot.record(tpot.count);
    tpot_met = tpot <= live.arrival->slo.tpot;
  }
  report.slo_ttft_met += ttft_met;
  report.slo_tpot_met += tpot_met;
  report.slo_both_met += ttft_met && tpot_met;
  constexpr std::int64_t kGapsForOneLate = 100;
  const bool pauses_met = live.late_gaps * kGapsForOneLate <= live.tokens - 1;
  report.slo_pauses_met += pauses_met;
  report.slo_all_met += ttft_met && pauses_met;
}

// Of `output` as a whole: a step gives a request one token.
void Simulation::record_tokens(const request::Output& output, Live& live, LatencyReport& report) {
  if (output.tokens.empty()) return;
  const Nanos now = clock_.now();
  if (live.tokens == 0) {
    live.first_token = now;
  } else {
    const Nanos gap = now - live.last_token;
    const bool met = gap <= live.arrival->slo.tpot;
    report.tbt.record(gap.count);
    report.gaps_met += met;
    live.late_gaps += !met;
  }
  live.last_token = now;
  live.tokens += std::ssize(output.tokens);
  report.output_tokens += std::ssize(output.tokens);
}

void Simulation::record(const request::Output& output) {
  const auto at = live_.find(output.request);
  CAUSEWAY_CHECK(at != live_.end(), "output of a request that does not live");
  Live& live = at->second;
  LatencyReport& report = report_of(live);
  record_tokens(output, live, report);
  if (!output.finished) return;
  last_end_ = clock_.now();
  if (output.reason == request::FinishReason::kError) {
    report.errors += 1;
  } else {
    record_end(live, report);
  }
  live_.erase(at);
}

bool Simulation::next_event() {
  constexpr Nanos kNever(INT64_MAX);
  const Nanos arrival = arrived_ < workload_.size() ? workload_[arrived_].at : kNever;
  const Nanos step = executor_.next_event().value_or(kNever);
  const Nanos wakeup = core_.next_wakeup().value_or(kNever);
  const Nanos copy = (mover_ ? mover_->next_end() : std::nullopt).value_or(kNever);
  const Nanos next = std::min({arrival, step, wakeup, copy});
  if (next == kNever || next > options_.virtual_time_max) return false;
  clock_.set(std::max(clock_.now(), next));
  if (next == step) {
    // Or copies of KV have ended, about which start_step() asks.
    const auto result = core_.step_in_flight() ? executor_.wait(Nanos(0)) : std::nullopt;
    if (result) core_.finish_step(*result, clock_.now());
  } else if (next == wakeup) {
    core_.check_timeout(clock_.now());
  }
  while (arrived_ < workload_.size() && workload_[arrived_].at <= clock_.now()) arrive();
  return true;
}

void Simulation::add_up() {
  for (const auto& [name, report] : report_.models) {
    LatencyReport& total = report_.total;
    total.ttft.merge(report.ttft);
    total.tpot.merge(report.tpot);
    total.tbt.merge(report.tbt);
    total.e2e.merge(report.e2e);
    total.requests += report.requests;
    total.refused += report.refused;
    total.completed += report.completed;
    total.errors += report.errors;
    total.slo_ttft_met += report.slo_ttft_met;
    total.slo_tpot_met += report.slo_tpot_met;
    total.slo_both_met += report.slo_both_met;
    total.slo_pauses_met += report.slo_pauses_met;
    total.slo_all_met += report.slo_all_met;
    total.gaps_met += report.gaps_met;
    total.output_tokens += report.output_tokens;
  }
}

SimulationReport Simulation::run() {
  while (arrived_ < workload_.size() || !core_.idle()) {
    if (!next_event()) break;
    core_.start_step(clock_.now());
    for (const request::Output& output : core_.take_outputs()) record(output);
  }
  add_up();
  report_.engine = core_.observe();
  report_.device = executor_.counters();
  if (const SimulatedCopies* copies = executor_.copies()) {
    report_.kv_in_bytes = copies->moved(kv::KvCopy::Direction::kIn);
    report_.kv_out_bytes = copies->moved(kv::KvCopy::Direction::kOut);
  }
  if (cache_) report_.weights = cache_->residency().counters();
  if (mover_) report_.streamed_bytes = mover_->streamed_bytes();
  report_.link_bytes = report_.weights.brought + report_.streamed_bytes;
  CAUSEWAY_CHECK(executor_.violation().empty(), "the engine breaks the rules of its device");
  if (!workload_.empty()) {
    report_.duration = std::max(Nanos(0), last_end_ - workload_.front().at);
  }
  report_.unfinished = static_cast<std::int64_t>(live_.size() + workload_.size() - arrived_);
  return std::move(report_);
}

Status check_rotation(const SimulationOptions& options) {
  CAUSEWAY_TRY(schedule::check_limits(options.rotation));
  std::vector<double> alphas;
  for (const ModelShape& shape : options.models) alphas.push_back(shape.rotary_alpha);
  CAUSEWAY_TRY(schedule::check_alphas(alphas));
  CAUSEWAY_TRY(schedule::check_lag(options.schedule.rotation.lag));
  CAUSEWAY_TRY(schedule::check_predicted_error(options.schedule.rotation.predicted_error));
  if (options.kv_host_memory == Bytes(0)) return {};
  if (options.kv_host_memory < options.frame) {
    return invalid_argument("the host memory for KV does not hold a frame");
  }
  if (options.profile.kv_in_bytes_per_second > 0) return {};
  return invalid_argument(options.profile.name +
                          ": KV does not move: give kv_in_gb_per_s and kv_out_gb_per_s");
}

Status check(const SimulationOptions& options, const Workload& workload) {
  if (options.models.empty()) return invalid_argument("a simulation needs a model");
  if (options.frame.count < 1 || options.kv_memory < options.frame) {
    return invalid_argument("the KV memory does not hold a frame");
  }
  if (options.kv_memory > options.profile.memory) {
    return invalid_argument("the KV memory is larger than the device's " +
                            std::to_string(options.profile.memory.count >> 20) + " MiB");
  }
  CAUSEWAY_TRY(check_rotation(options));
  if (options.residency.extent.count < 1) return invalid_argument("an extent has no bytes");
  if (options.schedule.tokens_per_step_max < 1 || options.schedule.running_max < 1) {
    return invalid_argument("tokens_per_step_max and running_max must be at least 1");
  }
  for (const ModelShape& shape : options.models) {
    if (shape.vocab < 1) return invalid_argument(shape.name + ": the vocabulary is empty");
    if (shape.layout.groups.empty() && options.profile.link_bytes_per_second > 0) {
      return invalid_argument(shape.name + ": its weights have no groups that could be brought");
    }
  }
  Nanos last(0);
  for (const Arrival& arrival : workload) {
    CAUSEWAY_TRY(request::check_slo(arrival.slo));
    if (arrival.model >= options.models.size() || arrival.at < last) {
      return invalid_argument("the workload is out of order or asks for a model that is not there");
    }
    last = arrival.at;
  }
  return {};
}

}  // namespace

Result<SimulationReport> run(const SimulationOptions& options, const Workload& workload) {
  CAUSEWAY_TRY(check(options, workload));
  Simulation simulation(options, workload);
  CAUSEWAY_TRY(simulation.add_models());
  return simulation.run();
}

}  // namespace causeway::simulate
