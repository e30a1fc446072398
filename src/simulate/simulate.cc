#include "simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "simulate/simulated_slice.h"

namespace causeway::simulate {
namespace {

class Simulation {
 public:
  Simulation(const SimulationOptions& options, const Workload& workload)
      : options_(options),
        workload_(workload),
        slice_(options, clock_),
        recorder_(workload, names_of(options.models)) {}
  Status add_models();
  SimulationReport run();

 private:
  static std::vector<std::string> names_of(const std::vector<ModelShape>& models);
  bool next_event();
  void arrive();

  const SimulationOptions& options_;
  const Workload& workload_;
  ManualClock clock_;
  SimulatedSlice slice_;
  LatencyRecorder recorder_;
  std::size_t arrived_ = 0;
};

std::vector<std::string> Simulation::names_of(const std::vector<ModelShape>& models) {
  std::vector<std::string> names;
  for (const ModelShape& shape : models) names.push_back(shape.name);
  return names;
}

Status Simulation::add_models() {
  for (std::size_t i = 0; i < options_.models.size(); ++i) {
    const ModelId id(static_cast<std::int64_t>(i));
    const auto added = slice_.add_model(id, options_.models[i]);
    if (!added.ok()) return added.error();
  }
  return {};
}

void Simulation::arrive() {
  const auto index = static_cast<std::int64_t>(arrived_);
  const Arrival& arrival = workload_[arrived_++];
  recorder_.arrived(index);
  auto request = request_of(arrival, index, options_.models[arrival.model].vocab);
  const Status taken = slice_.core().submit(std::move(request), clock_.now());
  if (!taken.ok()) recorder_.refused(RequestId(index), clock_.now());
}

bool Simulation::next_event() {
  constexpr Nanos kNever(INT64_MAX);
  const Nanos arrival = arrived_ < workload_.size() ? workload_[arrived_].at : kNever;
  const Nanos next = std::min(arrival, slice_.next_event().value_or(kNever));
  if (next == kNever || next > options_.virtual_time_max) return false;
  clock_.set(std::max(clock_.now(), next));
  slice_.happen();
  while (arrived_ < workload_.size() && workload_[arrived_].at <= clock_.now()) arrive();
  return true;
}

SimulationReport Simulation::run() {
  SimulationReport report;
  while (arrived_ < workload_.size() || !slice_.core().idle()) {
    if (!next_event()) break;
    slice_.start();
    for (const request::Output& output : slice_.core().take_outputs()) {
      recorder_.record(output, slice_.tells_at());
    }
  }
  report.profile = options_.profile.name;
  report.total = recorder_.total();
  report.models = recorder_.models();
  slice_.add_to(report);
  if (!workload_.empty()) {
    report.duration = std::max(Nanos(0), recorder_.last_end() - workload_.front().at);
  }
  report.unfinished = recorder_.live() + static_cast<std::int64_t>(workload_.size() - arrived_);
  return report;
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

Status check_alpha(const SimulationOptions& options) {
  CAUSEWAY_TRY(fleet::check_step_alpha(*options.alpha));
  if (!options.reads_at_home || options.profile.link_bytes_per_second <= 0) {
    return invalid_argument("an alpha is of steps that read weights at home, over a link");
  }
  if (!options.fast_forward) return {};
  return unsupported("with an alpha steps go one by one: leave out the fast-forward");
}

}  // namespace

Status check_slice(const SimulationOptions& options) {
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
  CAUSEWAY_TRY(schedule::check_chunk(options.schedule.chunk));
  if (options.alpha) CAUSEWAY_TRY(check_alpha(options));
  for (const ModelShape& shape : options.models) {
    if (shape.vocab < 1) return invalid_argument(shape.name + ": the vocabulary is empty");
    if (shape.layout.groups.empty() && options.profile.link_bytes_per_second > 0) {
      return invalid_argument(shape.name + ": its weights have no groups that could be brought");
    }
  }
  return {};
}

Status check_workload(const Workload& workload, std::size_t models) {
  Nanos last(0);
  for (const Arrival& arrival : workload) {
    CAUSEWAY_TRY(request::check_slo(arrival.slo));
    if (arrival.model >= models || arrival.at < last) {
      return invalid_argument("the workload is out of order or asks for a model that is not there");
    }
    last = arrival.at;
  }
  return {};
}

Result<SimulationReport> run(const SimulationOptions& options, const Workload& workload) {
  CAUSEWAY_TRY(check_slice(options));
  CAUSEWAY_TRY(check_workload(workload, options.models.size()));
  Simulation simulation(options, workload);
  CAUSEWAY_TRY(simulation.add_models());
  return simulation.run();
}

}  // namespace causeway::simulate
