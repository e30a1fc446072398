#include "server/http/session.h"

#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/admin_body.h"
#include "server/api/json_write.h"
#include "server/api/tokenize.h"
#include "server/http/admin_listings.h"
#include "server/http/administer.h"
#include "server/http/follow_models.h"
#include "server/http/generation.h"
#include "server/http/health.h"
#include "server/http/listings.h"
#include "server/http/page.h"
#include "server/http/respond.h"
#include "server/metrics.h"

namespace causeway::server {
namespace {

asio::awaitable<bool> answer_metrics(Connection& connection, const Incoming& incoming) {
  ServerContext& context = connection.context();
  std::string body;
  auto collect = [&context, &body] {
    if (context.traces != nullptr) context.metrics->traces(context.traces->counts());
    body = context.metrics->exposition(*context.fleet);
  };
  co_await offload(*context.pool, connection.worker(), collect);
  const bool more =
      co_await respond(connection, incoming, body, "text/plain; version=0.0.4; charset=utf-8");
  co_return more;
}

asio::awaitable<bool> answer_page(Connection& connection, const Incoming& incoming) {
  AnswerHead head;
  head.content_type = "text/html; charset=utf-8";
  head.security_policy = kPagePolicy;
  const bool more = co_await respond_with(connection, incoming, head, kPage);
  co_return more;
}

// Text to tokens or back, on a preparing thread, since it may take long.
asio::awaitable<bool> answer_tokens(Connection& connection, const Incoming& incoming, Body& body) {
  ServerContext& context = connection.context();
  const Counted counted(context, &ServerContext::generations);
  std::string out;
  MaybeError error;
  auto work = [&] {
    const TokenizeContext with{*context.fleet, context.options.limits.api, unix_seconds()};
    error = incoming.routed.route == Route::kTokenize ? answer_tokenize(body.text, with, out)
                                                      : answer_detokenize(body.text, with, out);
  };
  co_await offload(context.pool_for(body.text.size()), connection.worker(), work);
  body.drop();
  const bool more = co_await respond_either(connection, incoming, error, out);
  co_return more;
}

ApiError no_response(const ServerContext& context, const std::string& id) {
  const std::string why =
      context.responses.keeps()
          ? "it was never kept, or is not any more"
          : "answers are not stored: each request of /v1/responses has the whole conversation";
  ApiError error =
      bad_request("there is no response `" + to_valid_utf8(utf8_prefix(id, 128)) + "`: " + why);
  error.status = 404;
  error.code = context.responses.keeps() ? "not_found" : "unsupported";
  return error;
}

// GET or DELETE of a kept answer: its body as it was sent, or that it is deleted.
MaybeError tell_response(ServerContext& context, const Routed& routed, std::string& body) {
  const std::string& id = routed.response;
  const auto parameters = query_parameters(routed.query);
  if (!parameters) return bad_request("the query is not encoded properly");
  for (const auto& [name, value] : *parameters) {
    if (name != "stream" || value == "false") continue;
    return bad_request("`stream` is of responses in the background, which are not supported",
                       "stream");
  }
  if (routed.deletes) {
    if (!context.responses.erase(id, context.clock.now())) return no_response(context, id);
    body = "{\"id\":";
    append_json_string(body, id);
    body += R"(,"object":"response","deleted":true})";
    return {};
  }
  auto kept = context.responses.find(id, context.clock.now());
  if (!kept) return no_response(context, id);
  body = std::move(kept->response);
  return {};
}

// The endpoints without a body.
asio::awaitable<bool> tell(Connection& connection, const Incoming& incoming) {
  ServerContext& context = connection.context();
  std::string body = "{\"status\":\"ok\"}";
  MaybeError error;
  switch (incoming.routed.route) {
    case Route::kMetrics: {
      const bool more = co_await answer_metrics(connection, incoming);
      co_return more;
    }
    case Route::kModels: body = models_body(*context.fleet); break;
    case Route::kModel: {
      const auto* model = context.fleet->find(incoming.routed.model_name);
      if (model == nullptr) {
        error = model_not_found(incoming.routed.model_name);
      } else {
        body = model_body(*model, context.fleet->status(model->id));
      }
      break;
    }
    case Route::kResponse: error = tell_response(context, incoming.routed, body); break;
    case Route::kPage: {
      const bool more = co_await answer_page(connection, incoming);
      co_return more;
    }
    case Route::kAdminModels: {
      body = admin_models_body(*context.fleet, {context.draining, is_asleep(context)});
      break;
    }
    case Route::kRouterModels: body = router_models_body(*context.fleet); break;
    case Route::kRouterEvents: {
      const bool more = co_await follow_models(connection, incoming);
      co_return more;
    }
    case Route::kIsSleeping: body = is_sleeping_body(is_asleep(context)); break;
    case Route::kVersion: body = version_body(context.options.version); break;
    case Route::kHealth: {
      bool deep = false;
      error = parse_health_query(incoming.routed.query, deep);
      if (!error && deep) {
        const bool more = co_await answer_deep_health(connection, incoming);
        co_return more;
      }
      if (!error) error = what_ails(context);
      break;
    }
    default: error = what_ails(context); break;
  }
  const bool more = co_await respond_either(connection, incoming, error, body);
  co_return more;
}

// Reads a request, or as much of it as an error needs. The parser, which is large, is destroyed at
// the end: while the request is answered only `incoming` and `body` are left of it.
asio::awaitable<MaybeError> read_request(Connection& connection, Incoming& incoming, Body& body) {
  const ServerOptions& options = connection.context().options;
  Parser parser;
  configure(parser, options.limits);
  MaybeError error = co_await connection.read_head(parser);
  if (error) {
    incoming.keep_alive = false;
    co_return error;
  }
  error = examine(parser, options, connection.door(), incoming);
  const Route route = incoming.routed.route;
  if (error || !takes_body(route)) co_return error;
  const bool administered = administers(route) && !generates(route);
  if (!administered && connection.context().draining) co_return draining();
  error = co_await connection.read_body(parser, incoming.expects_continue, body.room);
  // After an error has_body stays set: the connection ends, because where the next request begins
  // is unknown.
  if (error) co_return error;
  incoming.has_body = false;
  body.text = std::move(parser.get().body());
  co_return error;
}

// One request; false ends the connection.
asio::awaitable<bool> serve_one(Connection& connection) {
  const bool there = co_await connection.wait_for_request();
  if (!there) co_return false;
  const Nanos arrival = connection.now();
  Incoming incoming;
  Body body(connection.context());
  const MaybeError error = co_await read_request(connection, incoming, body);
  const Route route = incoming.routed.route;
  bool more = false;
  if (error) {
    more = co_await respond_error(connection, incoming, *error);
  } else if (generates(route)) {
    more = co_await generate(connection, incoming, body, arrival);
  } else if (administers(route) && takes_body(route)) {
    more = co_await administer(connection, incoming, std::move(body.text));
  } else if (takes_body(route)) {
    more = co_await answer_tokens(connection, incoming, body);
  } else {
    more = co_await tell(connection, incoming);
  }
  co_return more;
}

asio::awaitable<void> serve_all(Connection& connection) {
  bool more = true;
  while (more) more = co_await serve_one(connection);
}

}  // namespace

asio::awaitable<void> run_session(ServerContext& context, Worker& worker, tcp::socket socket,
                                  Door door) {
  const Counted counted(context, &ServerContext::connections, Counted::Already());
  std::optional<Counted> counted_too;
  if (door == Door::kAdmin) {
    counted_too.emplace(context, &ServerContext::admin_connections, Counted::Already());
  }
  Connection connection(context, worker, std::move(socket), door);
  try {
    co_await serve_all(connection);
  } catch (const std::exception& failure) {
    spdlog::error("a connection ended by an internal failure: {}", failure.what());
  }
  co_await connection.unwatch();
  co_await connection.close();
}

}  // namespace causeway::server
