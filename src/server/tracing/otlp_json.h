// Spans as OTLP/HTTP sends them in JSON: an ExportTraceServiceRequest
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hexadecimal digits,
// integers of 64 bits as strings, enumerations as numbers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/tracing/request_trace.h"

namespace causeway::server {

// The service that the spans are of.
struct TraceResource {
  std::string version;        // of the program
  std::string instance = {};  // unlike that of every other process
};

std::string otlp_body(const TraceResource& resource, std::span<const RequestTrace> traces);

// How many spans a collector says it has not taken, of those that it was sent: its answer's
// partialSuccess.rejectedSpans. 0 for what is no such answer.
std::int64_t rejected_spans(std::string_view answer);

}  // namespace causeway::server
