// What a replay measured, of a server or in the simulator: the same report of both, so that they
// can be laid side by side. Pure.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/metrics_text.h"
#include "client/load_generator.h"
#include "client/report.h"
#include "simulate/workload.h"

namespace causeway::bench {

// What the server, or the simulated fleet, counted meanwhile; nullopt and empty: it does not say.
struct ReplayCounters {
  std::optional<std::int64_t> switches;  // requests that found weights missing on the device
  std::optional<double> switch_ms;       // in the mean, from such a request to the first token
  std::optional<std::int64_t> preemptions;
  std::optional<double> busy;                 // share of the time in which devices ran steps
  std::map<std::string, std::int64_t> bytes;  // over links, by purpose and direction: "weights in"
  std::map<std::string, std::int64_t> kv_blocks;  // copied, by reason and direction: "eager out"
  std::string missing;                            // why nothing is known; empty: something is
};

// From a Causeway server's metrics before and after. What has decreased, or was not there before,
// is left out: the server is another one.
ReplayCounters counters_between(const std::vector<MetricSample>& before,
                                const std::vector<MetricSample>& after, Nanos took);

// A second of the replay, or several.
struct ReplaySlot {
  std::int64_t arrivals = 0;
  std::int64_t attained = 0;  // of these, that kept both targets
  std::int64_t running = 0;   // that had arrived and not ended when it was over
  double ttft_mean_ms = 0;    // of arrivals that had a first token
  double ttft_most_ms = 0;
  std::map<std::string, std::int64_t> bytes = {};  // over links, as ReplayCounters has it
};

struct ReplayReport {
  std::string mode;    // "server" or "simulated"
  std::string source;  // which
  std::size_t models = 0;
  LoadReport load;
  std::map<std::string, std::int64_t> errors;  // by kind
  std::int64_t short_answers = 0;              // complete, with fewer tokens than asked for
  Nanos slot = seconds(1);                     // length of each, longer if the replay is long
  std::vector<ReplaySlot> slots;
  ReplayCounters counters;
};

// Of a request of the list, by its place there.
using Summaries = std::function<RequestSummary(std::size_t index)>;

// `load`: of the same requests.
ReplayReport report_replay(const simulate::Workload& list, const Summaries& summaries,
                           LoadReport load, ReplayCounters counters);
// `records`: of the requests of the list, in its order.
ReplayReport report_replay(const simulate::Workload& list, const std::vector<LoadRecord>& records,
                           const Targets& targets, ReplayCounters counters);

std::string to_text(const ReplayReport& report);
nlohmann::ordered_json to_json(const ReplayReport& report);

}  // namespace causeway::bench
