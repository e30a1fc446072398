// The checked head of an HTTP request, and how the parser is set up. No I/O here.
#pragma once

#include <optional>
#include <string_view>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/api/api_error.h"
#include "server/api/route.h"
#include "server/api/slo_headers.h"
#include "server/server.h"
#include "server/tracing/trace_context.h"

namespace causeway::server {

using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

struct Incoming {
  Routed routed;
  bool http_1_1 = true;
  bool keep_alive = false;
  bool expects_continue = false;
  bool has_body = false;
  SloHeaders slo;
  bool may_keep = false;  // the sender may administer the server, so it may use keep_alive
  std::optional<TraceContext> trace;  // the caller's trace, if traces are sent
};

void configure(Parser& parser, const ServerLimits& limits);

// Looks at a parsed head. What an error answer needs (http_1_1, has_body, routed.head) is set in
// any case.
MaybeError examine(const Parser& parser, const ServerOptions& options, Door door, Incoming& out);

// The answer when the parser failed: 400, 413 for the body limit, 431 for the header limit.
ApiError parse_failure(const boost::system::error_code& error, const ServerLimits& limits);

}  // namespace causeway::server
