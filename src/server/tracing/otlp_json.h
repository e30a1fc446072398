// Spans as OTLP/HTTP sends them in JSON: an ExportTraceServiceRequest
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids in hexadecimal digits,
// integers of 64 bits as strings, enumerations as numbers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/tracing/request_trace.h"

namespace causeway::server {

// The service to which the spans belong.
struct TraceResource {
  std::string version;        // of the program
  std::string instance = {};  // differs from that of every other process
};

std::string otlp_body(const TraceResource& resource, std::span<const RequestTrace> traces);

// How many of the sent spans the collector has refused, according to its answer
// (partialSuccess.rejectedSpans). 0 for any other answer.
std::int64_t rejected_spans(std::string_view answer);

}  // namespace causeway::server
