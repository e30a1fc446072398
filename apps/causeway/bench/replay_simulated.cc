#include "bench/replay_simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace causeway::bench {
namespace {

// Instants are of virtual time, which begins at 0. `path`: of a request to the engine, and of what
// it tells to the client.
RequestSummary summary_of(const simulate::Arrival& arrival, const simulate::RequestOutcome& outcome,
                          Nanos path) {
  RequestSummary summary{.scheduled = arrival.at,
                         .ended = std::max(arrival.at, outcome.ended) + path,
                         .first_token = outcome.first_token + path,
                         .last_token = outcome.last_token + path,
                         .answered = outcome.tokens > 0,
                         .prompt_tokens = arrival.prompt.count,
                         .cached_tokens = 0,
                         .completion_tokens = outcome.tokens,
                         .error = outcome.failure(),
                         .failure = {}};
  summary.failure = summary.error;
  return summary;
}

// Only models with requests are in the report.
LoadReport load_of(const simulate::Workload& list, const std::vector<simulate::ModelShape>& models,
                   const Summaries& summaries, const std::vector<Histogram>& gaps,
                   const Targets& targets) {
  LoadSums sums(targets);
  std::vector<LoadSums::Group*> groups(models.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    LoadSums::Group*& group = groups[list[i].model];
    if (group == nullptr) {
      group = &sums.group(models[list[i].model].name);
      group->itl.merge(gaps[list[i].model]);
    }
    sums.add(summaries(i), *group);
  }
  return sums.take();
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
  fleet.keep_outcomes = true;
  fleet.fleet.waiting_max = std::ssize(list) + 1;
  CAUSEWAY_ASSIGN(auto simulated, simulate::run_fleet(fleet, list));
  const std::vector<simulate::RequestOutcome>& outcomes = simulated.outcomes.requests;
  const Summaries summaries = [&](std::size_t index) {
    return summary_of(list[index], outcomes[index], fleet.slice.profile.request_path);
  };
  ReplayReport report =
      report_replay(list, summaries,
                    load_of(list, fleet.slice.models, summaries, simulated.outcomes.gaps,
                            {.ttft = options.slo.ttft, .tpot = options.slo.tpot}),
                    counters_of(simulated));
  add_bytes(simulated.carried, report);
  report.mode = "simulated";
  report.source =
      fmt::format("simulated on {}, {} slice{}, {}", fleet.slice.profile.name, simulated.slices,
                  simulated.slices == 1 ? "" : "s", simulated.placement);
  report.models = fleet.slice.models.size();
  return report;
}

}  // namespace causeway::bench
