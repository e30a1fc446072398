// Records the latencies that a simulation reports, from arrivals and outputs.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/units.h"
#include "request/request.h"
#include "simulate/workload.h"

namespace causeway::simulate {

// A request attains its target for the time between tokens when the mean gap between its tokens
// does; a request with a single token always does. The paper's evaluation looks at all gaps of all
// requests together (tbt). `slo_pauses_met` is stricter: at most 1 % of the request's gaps exceed
// the target.
struct LatencyReport {
  Histogram ttft;  // ns, from arrival to the first token
  Histogram tpot;  // ns, mean gap between the tokens of a request (of those with two or more)
  Histogram tbt;   // ns, every gap between two tokens
  Histogram e2e;   // ns, from arrival to the end
  std::int64_t requests = 0;  // that arrived
  std::int64_t refused = 0;   // requests that could never run
  std::int64_t completed = 0;
  std::int64_t errors = 0;
  std::int64_t cancelled = 0;     // by their clients
  std::int64_t slo_ttft_met = 0;  // of the completed requests
  std::int64_t slo_tpot_met = 0;
  std::int64_t slo_both_met = 0;
  std::int64_t slo_pauses_met = 0;  // of the completed requests
  std::int64_t slo_all_met = 0;     // slo_pauses_met, and the first token in time as well
  std::int64_t gaps_met = 0;        // gaps of tbt within the target
  std::int64_t output_tokens = 0;
};

// The result of one request.
struct ServedRequest {
  std::vector<Nanos> token_times;
  Nanos ended;
  // Why the request was not served to its end; empty: it was. "unfinished" when the simulation
  // ended first.
  std::string failure = "unfinished";
};

// Requests are identified by their places in the workload.
class LatencyRecorder {
 public:
  using Models = std::vector<std::pair<std::string, LatencyReport>>;

  // The workload is borrowed. `models`: their names, by index. `keep`: also keep each request's
  // result.
  LatencyRecorder(const Workload& workload, const std::vector<std::string>& models,
                  bool keep = false);

  void arrived(std::int64_t index);
  // The request ends at `now` without having been served, or because its client has left.
  void refused(RequestId request, Nanos now, bool cancelled = false);
  // What is recorded of an output.
  struct Part {
    RequestId request;
    Nanos at;
    std::int64_t tokens = 0;
    Nanos switched{-1};  // how long the switch took that it ended; negative: it ended none
    bool finished = false;
    request::FinishReason reason = request::FinishReason::kStop;

    Part() = default;
    Part(const request::Output& output, Nanos told)
        : request(output.request),
          at(told),
          tokens(std::ssize(output.tokens)),
          switched(output.switched ? output.switched->took : Nanos(-1)),
          finished(output.finished),
          reason(output.reason) {}
  };
  void record(const Part& part);
  void record(const request::Output& output, Nanos now) { record(Part(output, now)); }
  // Each of the requests got a token at each of these times.
  void record_tokens(std::span<const RequestId> requests, std::span<const Nanos> times);

  std::int64_t live() const { return std::ssize(live_) - std::ssize(free_); }
  Nanos last_end() const { return last_end_; }
  const Models& models() const { return models_; }
  LatencyReport total() const;
  // Call it at the end. By place in the workload; empty unless results are kept.
  std::vector<ServedRequest> take_served() { return std::move(served_); }
  // In ns, from a request that found weights missing to the first token of its model.
  const Histogram& switches() const { return switches_; }

 private:
  struct Live {
    const Arrival* arrival = nullptr;
    Nanos first_token;
    Nanos last_token;
    std::int64_t tokens = 0;
    std::int64_t late_gaps = 0;
  };

  LatencyReport& report_of(const Live& live) { return models_[live.arrival->model].second; }
  Live& live(RequestId request);
  void end(RequestId request);
  void record_tokens(const Part& part, Live& live);
  static void record_gap(Live& live, LatencyReport& report, Nanos now);
  void record_gaps(Live& live, LatencyReport& report);
  void record_end(const Live& live, Nanos now);
  void keep_end(RequestId request, Nanos now, const std::string& failure);

  const Workload& workload_;
  Models models_;
  std::vector<ServedRequest> served_;
  Histogram switches_;
  // Requests that live, in places that others have had before; and by request its place: -1: it
  // does not live.
  std::vector<Live> live_;
  std::vector<std::int32_t> free_;  // of the places
  std::vector<std::int32_t> place_of_;
  std::vector<std::int64_t> gaps_;  // between the tokens of calm steps; kept for its capacity
  Nanos last_end_;
};

}  // namespace causeway::simulate
