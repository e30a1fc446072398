// The trace that a request belongs to: W3C Trace Context, level 1
// (https://www.w3.org/TR/trace-context/), as the headers `traceparent` and `tracestate` say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::server {

struct TraceId {
  std::uint64_t high = 0, low = 0;  // not both zero

  bool operator==(const TraceId&) const = default;
};

struct TraceContext {
  TraceId trace;
  std::uint64_t parent = 0;  // the caller's span; 0: there is none
  bool sampled = true;       // the caller records the trace
  std::string state;         // tracestate, as it came

  bool operator==(const TraceContext&) const = default;
};

// nullopt: the header is none of the standard's, and the request begins a trace of its own. From an
// unknown version what version 00 has is read, as the standard demands.
std::optional<TraceContext> parse_traceparent(std::string_view header);

// A tracestate is passed on if it is printable ASCII of 512 characters at most; else nothing is.
std::string passable_trace_state(std::string_view header);

// The hexadecimal digits that JSON and headers have.
std::string hex_of(std::uint64_t bits);
std::string hex_of(TraceId id);

// The trace that the `number`-th request of a server begins, never twice the same; and the id of
// the `number`-th span of a trace, not 0. `seed`: unlike that of every other process.
TraceId make_trace_id(std::uint64_t seed, std::uint64_t number);
std::uint64_t make_span_id(std::uint64_t seed, std::uint64_t number);

// Whether a trace is recorded whose caller has not decided it: OpenTelemetry's TraceIdRatioBased,
// so that servers with the same ratio choose the same traces. `ratio` in [0, 1].
bool is_sampled(TraceId id, double ratio);

}  // namespace causeway::server
