#include "server/http/incoming.h"

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <charconv>
#include <iterator>
#include <limits>

#include "server/api/origin.h"

namespace causeway::server {
namespace {

namespace http = boost::beast::http;

template <typename Name>
std::string_view header(const Parser& parser, Name name) {
  const auto value = parser.get()[name];
  return {value.data(), value.size()};
}

ApiError with_status(int status, std::string message) {
  ApiError error = bad_request(std::move(message));
  error.status = status;
  return error;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

// Leaves `out` as it is where there is no such header. `convert`: double → Result of what it means.
template <typename Value, typename Convert>
MaybeError read_number(const Parser& parser, std::string_view name, std::optional<Value>& out,
                       Convert convert) {
  const auto found = parser.get().find({name.data(), name.size()});
  if (found == parser.get().end()) return {};
  const std::string_view text(found->value().data(), found->value().size());
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = failure == std::errc() && end == text.data() + text.size();
  // What is no number is out of every range.
  const auto converted = convert(number ? value : std::numeric_limits<double>::quiet_NaN());
  if (!converted.ok()) {
    return bad_request("header `" + std::string(name) + "`: " + converted.error().message,
                       std::string(name));
  }
  out = *converted;
  return {};
}

MaybeError examine_slo(const Parser& parser, SloHeaders& out) {
  const auto slack = [](double request::Slo::*field) {
    return [field](double value) -> Result<double> {
      request::Slo slo;
      slo.*field = value;
      CAUSEWAY_TRY(request::check_slo(slo));
      return value;
    };
  };
  const auto target = request::target_from_ms;
  if (auto error = read_number(parser, "x-slo-ttft-ms", out.ttft, target)) return error;
  if (auto error = read_number(parser, "x-slo-tpot-ms", out.tpot, target)) return error;
  if (auto error = read_number(parser, "x-slo-ttft-slack", out.ttft_slack,
                               slack(&request::Slo::ttft_slack))) {
    return error;
  }
  return read_number(parser, "x-slo-tpot-slack", out.tpot_slack, slack(&request::Slo::tpot_slack));
}

// Whether the client may ask. Where there is no key, pages of other sites are kept out.
MaybeError examine_rights(const Parser& parser, const ServerOptions& options, Route route) {
  if (!needs_key(route)) return {};
  const bool admin = administers(route) && options.admin;
  const std::vector<std::string>& keys = admin ? options.admin->keys : options.api_keys;
  if (!authorised(header(parser, http::field::authorization), keys)) return unauthorised();
  if (!admin || !keys.empty()) return {};
  return check_site(header(parser, http::field::host), header(parser, http::field::origin));
}

// Whether the client may say how long its model stays. The key for administration comes in a header
// of its own, because Authorization holds the key of the first port. Without such keys only this
// machine reaches the admin port (Server::start checks that), and what a page of another site sends
// is turned away.
bool may_keep(const Parser& parser, const ServerOptions& options, Route route) {
  if (!options.limits.api.keep_alive || !generates(route)) return false;
  if (administers(route)) return true;  // its key has been looked at
  const std::vector<std::string>& keys = options.admin->keys;
  if (!keys.empty()) {
    return authorised("Bearer " + std::string(header(parser, "x-admin-key")), keys);
  }
  return !check_site(header(parser, http::field::host), header(parser, http::field::origin));
}

MaybeError examine_expect(const Parser& parser, Incoming& out) {
  const std::string_view expect = header(parser, http::field::expect);
  if (expect.empty() || !out.http_1_1) return {};
  if (!equal_ignoring_case(expect, "100-continue")) {
    return with_status(417, "header Expect: only 100-continue is known");
  }
  out.expects_continue = out.has_body;
  return {};
}

// The trace that the caller is in. With several `traceparent` headers it is in none.
std::optional<TraceContext> trace_of(const Parser& parser) {
  const auto [first, end] = parser.get().equal_range("traceparent");
  if (first == end || std::next(first) != end) return {};
  auto context = parse_traceparent({first->value().data(), first->value().size()});
  if (!context) return {};
  std::string state;
  const auto [first_state, end_state] = parser.get().equal_range("tracestate");
  for (auto at = first_state; at != end_state; ++at) {
    if (!state.empty()) state += ',';
    state.append(at->value().data(), at->value().size());
  }
  context->state = passable_trace_state(state);
  return context;
}

// Beast takes a body as chunked when its last coding is `chunked`, and as absent when the last
// coding is unknown. A proxy in front of this server may read the same header differently: what one
// of them takes for a body the other takes for the next request (request smuggling). So only
// `chunked` alone is let through; anything else is an error that ends the connection.
MaybeError examine_transfer_encoding(const Parser& parser, Incoming& out) {
  const auto [first, end] = parser.get().equal_range(http::field::transfer_encoding);
  if (first == end) return {};
  const bool plain = std::next(first) == end && boost::beast::iequals(first->value(), "chunked");
  if (plain && out.http_1_1) return {};
  out.keep_alive = false;
  if (!out.http_1_1) return bad_request("header Transfer-Encoding: HTTP/1.0 has none");
  return with_status(501, "header Transfer-Encoding: only chunked is supported");
}

}  // namespace

void configure(Parser& parser, const ServerLimits& limits) {
  parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  parser.body_limit(limits.body_bytes_max);
}

MaybeError examine(const Parser& parser, const ServerOptions& options, Door door, Incoming& out) {
  const auto& head = parser.get();
  out.http_1_1 = head.version() >= 11;
  out.keep_alive = parser.keep_alive();
  out.has_body = parser.chunked() || parser.content_length_remaining().value_or(0) > 0;
  const std::string_view method(head.method_string().data(), head.method_string().size());
  const std::string_view target(head.target().data(), head.target().size());
  MaybeError unroutable = find_route(door, method, target, out.routed);
  if (auto error = examine_transfer_encoding(parser, out)) return error;
  if (unroutable) return unroutable;
  if (auto error = examine_rights(parser, options, out.routed.route)) return error;
  const std::string_view encoding = header(parser, http::field::content_encoding);
  if (!encoding.empty() && !equal_ignoring_case(encoding, "identity")) {
    return with_status(415, "bodies with a Content-Encoding are not supported");
  }
  if (auto error = examine_expect(parser, out)) return error;
  if (options.traces) out.trace = trace_of(parser);
  out.may_keep = may_keep(parser, options, out.routed.route);
  return examine_slo(parser, out.slo);
}

ApiError parse_failure(const boost::system::error_code& error, const ServerLimits& limits) {
  if (error == http::error::body_limit) return body_too_large(limits.body_bytes_max);
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return with_status(
        431, "the header is larger than " + std::to_string(limits.header_bytes_max) + " bytes");
  }
  if (error == http::error::partial_message || error == http::error::end_of_stream) {
    return bad_request("the connection's sending side closed before the request was complete");
  }
  return bad_request("this is not an HTTP/1.1 request: " + error.message());
}

}  // namespace causeway::server
