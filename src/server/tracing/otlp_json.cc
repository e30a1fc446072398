#include "server/tracing/otlp_json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/json_write.h"

namespace causeway::server {
namespace {

constexpr int kInternal = 1, kServer = 2;  // SpanKind
constexpr int kError = 2;                  // StatusCode

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) value = 0;
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  out.append(digits, end);
}

void append_value(std::string& out, const SpanAttribute& attribute) {
  out += "{\"key\":";
  append_json_string(out, attribute.name);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
    out += ",\"value\":{\"intValue\":\"";
    append_json_integer(out, *integer);
    out += "\"}}";
  } else if (const auto* number = std::get_if<double>(&attribute.value)) {
    out += ",\"value\":{\"doubleValue\":";
    append_number(out, *number);
    out += "}}";
  } else {
    out += ",\"value\":{\"stringValue\":";
    append_json_string(out, std::get<std::string>(attribute.value));
    out += "}}";
  }
}

void append_attributes(std::string& out, std::span<const SpanAttribute> attributes) {
  out += "\"attributes\":[";
  for (const SpanAttribute& attribute : attributes) {
    if (out.back() != '[') out += ',';
    append_value(out, attribute);
  }
  out += ']';
}

void append_time(std::string& out, std::string_view name, Nanos time) {
  out += ",\"";
  out += name;
  out += "\":\"";
  append_json_integer(out, std::max(time, Nanos(0)).count);
  out += '"';
}

void append_span(std::string& out, const TraceContext& context, const Span& span) {
  out += "{\"traceId\":\"" + hex_of(context.trace) + "\",\"spanId\":\"" + hex_of(span.id) + '"';
  if (span.parent != 0) out += ",\"parentSpanId\":\"" + hex_of(span.parent) + '"';
  if (!context.state.empty()) {
    out += ",\"traceState\":";
    append_json_string(out, context.state);
  }
  out += ",\"name\":";
  append_json_string(out, span.name);
  out += ",\"kind\":";
  append_json_integer(out, span.server ? kServer : kInternal);
  append_time(out, "startTimeUnixNano", span.begin);
  append_time(out, "endTimeUnixNano", span.end);
  out += ',';
  append_attributes(out, span.attributes);
  if (!span.error.empty()) {
    out += ",\"status\":{\"code\":";
    append_json_integer(out, kError);
    out += ",\"message\":";
    append_json_string(out, span.error);
    out += '}';
  }
  out += '}';
}

}  // namespace

std::string otlp_body(const TraceResource& resource, std::span<const RequestTrace> traces) {
  const SpanAttribute of_resource[] = {{"service.name", std::string("causeway")},
                                       {"service.version", resource.version},
                                       {"service.instance.id", resource.instance}};
  std::string out = "{\"resourceSpans\":[{\"resource\":{";
  append_attributes(out, of_resource);
  out += "},\"scopeSpans\":[{\"scope\":{\"name\":\"causeway\",\"version\":";
  append_json_string(out, resource.version);
  out += "},\"spans\":[";
  for (const RequestTrace& trace : traces) {
    for (const Span& span : spans_of(trace)) {
      if (out.back() != '[') out += ',';
      append_span(out, trace.context, span);
    }
  }
  out += "]}]}]}";
  return out;
}

std::int64_t rejected_spans(std::string_view answer) {
  const auto json = json_tree(answer);
  if (!json.is_object()) return 0;
  const auto partial = json.find("partialSuccess");
  if (partial == json.end() || !partial->is_object()) return 0;
  const auto rejected = partial->find("rejectedSpans");
  if (rejected == partial->end()) return 0;
  std::int64_t count = 0;
  if (rejected->is_number_integer()) count = rejected->get<std::int64_t>();
  if (rejected->is_string()) {
    const auto& text = rejected->get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  return std::max(count, std::int64_t{0});
}

}  // namespace causeway::server
