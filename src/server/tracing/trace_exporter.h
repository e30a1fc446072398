// Sends what requests leave behind to an OpenTelemetry collector, by OTLP/HTTP in JSON.
//
//   I/O threads ── add() ──▶ queue, bounded ──▶ one thread: spans_of, JSON, POST ──▶ collector
//                    │ full: dropped, counted        │ 429, 502, 503, 504, no answer: again later
//                    └ never waits                   └ else refused: dropped, counted
//
// A request is never delayed: add() takes a short lock, and a collector that is absent, slow or
// refuses costs spans alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/units.h"
#include "server/tracing/http_endpoint.h"
#include "server/tracing/otlp_json.h"
#include "server/tracing/request_trace.h"

namespace causeway::server {

struct TraceOptions {
  HttpEndpoint endpoint;
  // The share of traces that begin here, [0, 1]; for other traces their caller decides.
  double sample_ratio = 1;
  std::uint64_t seed = 0;  // for ids; must differ from that of every other process
  std::int64_t queued_spans_max = 8192;
  std::int64_t batch_spans_max = 512;
  Nanos period = seconds(1);          // how long a batch that is not full waits
  Nanos post_time_max = seconds(5);   // of one batch
  // Doubles at each retry, unless the collector says how long to wait.
  Nanos first_retry = seconds(1);
  Nanos retry_max = seconds(30);      // at most
  int posts_max = 4;                  // of one batch, which is then dropped
  Nanos flush_time_max = seconds(2);  // of stop()
};

// Numbers of spans since the start.
struct TraceCounts {
  std::int64_t exported = 0;
  std::int64_t dropped_full = 0;      // the queue was full
  std::int64_t dropped_failed = 0;    // the last attempt failed, or they were refused
  std::int64_t dropped_rejected = 0;  // the collector took only a part of the batch
  std::int64_t dropped_stopped = 0;   // left when the server stopped
};

// Thread-safe.
class TraceExporter {
  struct State;

 public:
  // kResourceExhausted: no thread is available. Whether the collector can be reached shows only
  // when spans are sent, and is logged.
  static Result<std::unique_ptr<TraceExporter>> start(TraceOptions options, TraceResource resource);
  explicit TraceExporter(std::shared_ptr<State> state);  // by start()
  ~TraceExporter();                                      // stops
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // The context of a request: its caller's, or that of a trace that begins here. nullopt: it is not
  // recorded.
  std::optional<TraceContext> context(std::optional<TraceContext> of_caller);
  std::uint64_t make_root();

  // Never waits for a collector. After stop() the trace is dropped.
  void add(RequestTrace trace);
  TraceCounts counts() const;

  // Sends what is queued, for flush_time_max at most, and ends the thread. A thread that the
  // system's resolver holds is left behind. Idempotent; any thread, one at a time.
  void stop();

 private:
  // Shared with the thread, which may have to be left running.
  std::shared_ptr<State> state_;
};

}  // namespace causeway::server
