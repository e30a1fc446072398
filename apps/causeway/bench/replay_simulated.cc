#include "bench/replay_simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace causeway::bench {
namespace {

// Instants are of virtual time, which begins at 0. `path`: of a request to the engine, and of what
// it tells to the client.
LoadRecord record_of(const simulate::Arrival& arrival, simulate::ServedRequest served,
                     const std::string& model, Nanos path) {
  LoadRecord record;
  record.model = model;
  record.scheduled = arrival.at;
  StreamOutcome& outcome = record.outcome;
  outcome.sent = arrival.at;
  outcome.ended = std::max(arrival.at, served.ended) + path;
  outcome.completion_tokens = std::ssize(served.token_times);
  outcome.token_times = std::move(served.token_times);
  for (Nanos& token : outcome.token_times) token += path;
  outcome.prompt_tokens = arrival.prompt.count;
  outcome.failure = served.failure;
  outcome.error = served.failure;
  return record;
}

// Of several slices the server's metrics have the sum; the simulator reports the mean.
double busy_of(const simulate::FleetSimulationReport& report) {
  const double busy = to_seconds(report.serving.device.busy) * static_cast<double>(report.slices);
  return busy / std::max(1e-9, to_seconds(report.serving.duration));
}

ReplayCounters counters_of(const simulate::FleetSimulationReport& report) {
  const simulate::SimulationReport& serving = report.serving;
  const request::KvCopyCounts& copies = serving.engine.kv_copies;
  ReplayCounters counters;
  counters.switches = report.switches.count();
  if (report.switches.count() > 0) counters.switch_ms = report.switches.mean() * 1e-6;
  counters.preemptions = serving.engine.preemptions;
  counters.busy = busy_of(report);
  counters.bytes = {{"weights in", serving.link_bytes.count}};
  if (serving.weights_out_bytes > Bytes(0)) {
    counters.bytes["weights out"] = serving.weights_out_bytes.count;
  }
  counters.kv_blocks = {{"eager out", copies.eager_out},
                        {"rotation out", copies.rotation_out},
                        {"rotation in", copies.rotation_in},
                        {"prefix in", copies.prefix_in}};
  return counters;
}

std::map<std::string, std::int64_t> bytes_between(const simulate::FleetCarried& from,
                                                  const simulate::FleetCarried& until) {
  std::map<std::string, std::int64_t> bytes;
  const auto put = [&](const char* purpose, Bytes simulate::FleetCarried::*of) {
    if (until.*of > Bytes(0)) bytes[purpose] = (until.*of - from.*of).count;
  };
  put("weights in", &simulate::FleetCarried::weights_in);
  put("weights read at home", &simulate::FleetCarried::weights_home);
  put("weights out", &simulate::FleetCarried::weights_out);
  put("KV in", &simulate::FleetCarried::kv_in);
  put("KV out", &simulate::FleetCarried::kv_out);
  return bytes;
}

// `carried`: at the end of each second, then at the end.
void add_bytes(const std::vector<simulate::FleetCarried>& carried, ReplayReport& report) {
  if (carried.empty()) return;
  const std::int64_t each = std::max<std::int64_t>(1, report.slot / seconds(1));
  simulate::FleetCarried before;
  for (std::size_t i = 0; i < report.slots.size(); ++i) {
    const std::int64_t end =
        std::min((static_cast<std::int64_t>(i) + 1) * each, std::ssize(carried));
    const simulate::FleetCarried& now = carried[static_cast<std::size_t>(end - 1)];
    report.slots[i].bytes = bytes_between(before, now);
    before = now;
  }
}

}  // namespace

Result<ReplayReport> replay_simulated(simulate::FleetSimulationOptions fleet,
                                      const ReplayOptions& options) {
  CAUSEWAY_ASSIGN(const auto list, replay_list(options, fleet.slice.models.size()));
  fleet.keep_requests = true;
  fleet.fleet.waiting_max = std::ssize(list) + 1;
  CAUSEWAY_ASSIGN(auto simulated, simulate::run_fleet(fleet, list));
  std::vector<LoadRecord> records;
  records.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string& model = fleet.slice.models[list[i].model].name;
    records.push_back(record_of(list[i], std::move(simulated.requests[i]), model,
                                fleet.slice.profile.request_path));
  }
  ReplayReport report = report_replay(
      list, records, {.ttft = options.slo.ttft, .tpot = options.slo.tpot}, counters_of(simulated));
  add_bytes(simulated.carried, report);
  report.mode = "simulated";
  report.source =
      fmt::format("simulated on {}, {} slice{}, {}", fleet.slice.profile.name, simulated.slices,
                  simulated.slices == 1 ? "" : "s", simulated.placement);
  report.models = fleet.slice.models.size();
  return report;
}

}  // namespace causeway::bench
