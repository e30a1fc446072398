#include "server/http/session.h"

#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/tokenize.h"
#include "server/http/answer_head.h"
#include "server/http/generation.h"
#include "server/http/listings.h"
#include "server/metrics.h"

namespace causeway::server {
namespace {

AnswerHead head_for(const ServerContext& context, const Incoming& incoming) {
  AnswerHead head;
  head.http_1_1 = incoming.http_1_1;
  head.keep_alive = incoming.keep_alive && !context.draining;
  return head;
}

asio::awaitable<bool> answer_error(Connection& connection, Incoming incoming, ApiError error) {
  AnswerHead head = head_for(connection.context(), incoming);
  // What the client still sends of a body is not read as the next request.
  head.keep_alive = head.keep_alive && !incoming.has_body;
  const std::string answer = error_answer(error, head, incoming.routed.head);
  const bool written = co_await connection.write(answer);
  co_return written&& head.keep_alive;
}

asio::awaitable<bool> answer(Connection& connection, Incoming incoming, std::string body,
                             std::string_view content_type) {
  AnswerHead head = head_for(connection.context(), incoming);
  head.content_type = content_type;
  head.keep_alive = head.keep_alive && !incoming.has_body;
  std::string out;
  append_head(out, head, body.size());
  if (!incoming.routed.head) out += body;
  const bool written = co_await connection.write(out);
  co_return written&& head.keep_alive;
}

asio::awaitable<bool> answer_metrics(Connection& connection, Incoming incoming) {
  ServerContext& context = connection.context();
  std::string body;
  auto collect = [&context, &body] { body = context.metrics->exposition(*context.fleet); };
  co_await offload(*context.pool, connection.worker(), collect);
  const bool more = co_await answer(connection, std::move(incoming), std::move(body),
                                    "text/plain; version=0.0.4; charset=utf-8");
  co_return more;
}

// Text to tokens or back: what takes long is done on a preparing thread.
asio::awaitable<bool> answer_tokens(Connection& connection, Incoming incoming, std::string body) {
  ServerContext& context = connection.context();
  const Counted counted(context, &ServerContext::generations);
  std::string out;
  MaybeError error;
  auto work = [&] {
    const TokenizeContext with{*context.fleet, context.options.limits.api, unix_seconds()};
    error = incoming.routed.route == Route::kTokenize ? answer_tokenize(body, with, out)
                                                      : answer_detokenize(body, with, out);
  };
  co_await offload(*context.pool, connection.worker(), work);
  bool more = false;
  if (error) {
    more = co_await answer_error(connection, std::move(incoming), *std::move(error));
  } else {
    more = co_await answer(connection, std::move(incoming), std::move(out), "application/json");
  }
  co_return more;
}

MaybeError what_ails(const ServerContext& context) {
  if (context.draining) return draining();
  request::Observation seen = context.fleet->observe();
  if (!seen.lost.empty()) return device_lost(std::move(seen.lost));
  if (seen.hung) return device_hung();
  return std::nullopt;
}

// The endpoints without a body.
asio::awaitable<bool> tell(Connection& connection, Incoming incoming) {
  ServerContext& context = connection.context();
  std::string body = "{\"status\":\"ok\"}";
  MaybeError error;
  switch (incoming.routed.route) {
    case Route::kMetrics: {
      const bool more = co_await answer_metrics(connection, std::move(incoming));
      co_return more;
    }
    case Route::kModels: body = models_body(*context.fleet); break;
    case Route::kModel: {
      const auto* model = context.fleet->find(incoming.routed.model_name);
      if (model == nullptr) {
        error = model_not_found(incoming.routed.model_name);
      } else {
        body = model_body(*context.fleet, *model);
      }
      break;
    }
    case Route::kVersion: body = version_body(context.options.version); break;
    default: error = what_ails(context); break;
  }
  bool more = false;
  if (error) {
    more = co_await answer_error(connection, std::move(incoming), *std::move(error));
  } else {
    more = co_await answer(connection, std::move(incoming), std::move(body), "application/json");
  }
  co_return more;
}

// One request; false ends the connection.
asio::awaitable<bool> serve_one(Connection& connection) {
  const ServerOptions& options = connection.context().options;
  const bool there = co_await connection.wait_for_request();
  if (!there) co_return false;
  const Nanos arrival = connection.now();
  Parser parser;
  configure(parser, options.limits);
  Incoming incoming;
  MaybeError error = co_await connection.read_head(parser);
  if (error) {
    incoming.keep_alive = false;
  } else {
    error = examine(parser, options, incoming);
  }
  const bool posted = !error && takes_body(incoming.routed.route);
  if (posted && connection.context().draining) error = draining();
  if (posted && !error) {
    error = co_await connection.read_body(parser, incoming.expects_continue);
    // A body cut short, too large or late: where the next request begins is unknown.
    if (!error) incoming.has_body = false;
  }
  bool more = false;
  if (error) {
    more = co_await answer_error(connection, std::move(incoming), *std::move(error));
  } else if (posted && !generates(incoming.routed.route)) {
    more = co_await answer_tokens(connection, std::move(incoming), std::move(parser.get().body()));
  } else if (posted) {
    more =
        co_await generate(connection, std::move(incoming), std::move(parser.get().body()), arrival);
  } else {
    more = co_await tell(connection, std::move(incoming));
  }
  co_return more;
}

asio::awaitable<void> serve_all(Connection& connection) {
  bool more = true;
  while (more) more = co_await serve_one(connection);
}

}  // namespace

asio::awaitable<void> run_session(ServerContext& context, Worker& worker, tcp::socket socket) {
  const Counted counted(context, &ServerContext::connections);
  Connection connection(context, worker, std::move(socket));
  try {
    co_await serve_all(connection);
  } catch (const std::exception& failure) {
    spdlog::error("a connection ended by an internal failure: {}", failure.what());
  }
  co_await connection.unwatch();
  co_await connection.close();
}

}  // namespace causeway::server
