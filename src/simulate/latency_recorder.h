// Records the latencies that a simulation reports, from arrivals and outputs.
#pragma once

#include <cstdint>
#include <memory>
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

// The same in short.
struct RequestOutcome {
  enum class End : std::uint8_t { kUnfinished, kServed, kRefused, kCancelled, kError };

  Nanos first_token;  // with the last, of those that came
  Nanos last_token;
  Nanos ended;
  std::int32_t tokens = 0;
  End end = End::kUnfinished;

  // As ServedRequest::failure.
  const char* failure() const;
};

// How each request ended, in the order of the workload, and the gaps between tokens of each model's
// requests that were served.
struct Outcomes {
  std::vector<RequestOutcome> requests;
  std::vector<Histogram> gaps;  // in ns, by model
};

// What is recorded: latencies by model (LatencyReport), these and each request's times
// (ServedRequest), or instead of them outcomes alone, which take the least time and memory.
enum class Recorded { kLatencies, kRequests, kOutcomes };

// Requests are identified by their places in the workload. Several threads may record, each with a
// number of its own, but not of the same request at the same time. What they have recorded is added
// up when it is asked for, which no thread may do while another one records.
class LatencyRecorder {
 public:
  using Models = std::vector<std::pair<std::string, LatencyReport>>;

  // The workload is borrowed. `models`: their names, by index. `threads`: how many may record.
  LatencyRecorder(const Workload& workload, std::vector<std::string> models,
                  Recorded recorded = Recorded::kLatencies, std::size_t threads = 1);

  // These two are for the first thread.
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
  void record(const Part& part, std::size_t thread = 0);
  void record(const request::Output& output, Nanos now) { record(Part(output, now)); }
  // Each of the requests got a token at each of these times.
  void record_tokens(std::span<const RequestId> requests, std::span<const Nanos> times,
                     std::size_t thread = 0);

  // Requests that have arrived and not ended.
  std::int64_t live() const;
  // When the last of the requests that were answered ended.
  Nanos last_end() const;
  Models models() const;
  LatencyReport total() const;
  // Call these at the end. Empty unless they are recorded.
  std::vector<ServedRequest> take_served() { return std::move(served_); }
  Outcomes take_outcomes();
  // In ns, from a request that found weights missing to the first token of its model.
  Histogram switches() const;

 private:
  using Times = std::vector<Nanos>;
  // A request.
  struct Life {
    static constexpr std::int32_t kNotLive = -1;

    Nanos first_token;
    Nanos last_token;
    std::int32_t tokens = kNotLive;
    std::int32_t late_gaps = 0;
    std::unique_ptr<Times> times;  // of its tokens until it ends, where its outcome is recorded
  };
  // What a thread has recorded.
  struct Tally {
    std::vector<LatencyReport> models;
    Histogram switches;
    std::int64_t live = 0;  // arrivals less ends: with several threads only the sum says something
    Nanos last_end;
    std::vector<std::int64_t> gaps;             // between some tokens; kept for its capacity
    std::vector<Histogram> served_gaps;         // by model, where outcomes are recorded
    std::vector<std::unique_ptr<Times>> spare;  // of requests that have ended
  };

  const Arrival& arrival_of(RequestId request) const {
    return workload_[static_cast<std::size_t>(request.value)];
  }
  LatencyReport& report_of(RequestId request, Tally& tally) const {
    return tally.models[arrival_of(request).model];
  }
  Life& life_of(RequestId request);
  bool records_outcomes() const { return recorded_ == Recorded::kOutcomes; }
  static void add_times(Life& life, Tally& tally, std::span<const Nanos> times);
  void record_outcome(const Part& part, Life& life, Tally& tally);
  void end_outcome(RequestId request, Nanos now, RequestOutcome::End end, Tally& tally);
  static void find_gaps(std::span<const Nanos> times, std::vector<std::int64_t>& gaps);
  void refused(RequestId request, Nanos now, bool cancelled, Tally& tally);
  void end(RequestId request, Tally& tally);
  void record_tokens(const Part& part, Life& life, Tally& tally) const;
  static void record_gap(Life& life, const Arrival& arrival, LatencyReport& report, Nanos now);
  static void record_gaps(Life& life, const Arrival& arrival, LatencyReport& report,
                          std::span<const std::int64_t> gaps);
  void record_end(RequestId request, const Life& life, Nanos now, Tally& tally) const;
  void keep_end(RequestId request, Nanos now, const std::string& failure);

  const Workload& workload_;
  const std::vector<std::string> names_;  // of the models
  const Recorded recorded_;
  std::vector<ServedRequest> served_;
  std::vector<RequestOutcome> outcomes_;
  std::vector<Life> lives_;     // by request
  std::vector<Tally> tallies_;  // by thread
};

}  // namespace causeway::simulate
