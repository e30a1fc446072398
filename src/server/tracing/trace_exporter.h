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
  double sample_ratio = 1;  // of traces that begin here, [0, 1]; others go by their caller
  std::uint64_t seed = 0;   // of ids: unlike that of every other process
  std::int64_t queued_spans_max = 8192;
  std::int64_t batch_spans_max = 512;
  Nanos period = seconds(1);          // a batch that is not full waits as long
  Nanos post_time_max = seconds(5);   // of one batch
  Nanos first_retry = seconds(1);     // then twice as long each time, or as the collector says
  Nanos retry_max = seconds(30);      // at most
  int posts_max = 4;                  // of one batch, then it is dropped
  Nanos flush_time_max = seconds(2);  // of stop()
};

// Spans since the start.
struct TraceCounts {
  std::int64_t exported = 0;
  std::int64_t dropped_full = 0;      // the queue was
  std::int64_t dropped_failed = 0;    // sent as often as may be, or refused
  std::int64_t dropped_rejected = 0;  // of a batch that was taken in part
  std::int64_t dropped_stopped = 0;   // left when the server stopped
};

// Thread-safe.
class TraceExporter {
  struct State;

 public:
  // kResourceExhausted: no thread to be had. Whether a collector is there is seen when spans are
  // sent, and logged.
  static Result<std::unique_ptr<TraceExporter>> start(TraceOptions options, TraceResource resource);
  explicit TraceExporter(std::shared_ptr<State> state);  // by start()
  ~TraceExporter();                                      // stops
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // The context of a request: its caller's, or that of a trace that begins here. nullopt: it is not
  // recorded.
  std::optional<TraceContext> context(std::optional<TraceContext> of_caller);
  std::uint64_t make_root();

  // Never waits for a collector. After stop() it is dropped.
  void add(RequestTrace trace);
  TraceCounts counts() const;

  // Sends what is queued, for flush_time_max at most, and ends the thread. A thread that the
  // system's resolver holds is left behind. Idempotent; any thread, one at a time.
  void stop();

 private:
  // Shared with the thread, which may have to be left.
  std::shared_ptr<State> state_;
};

}  // namespace causeway::server
