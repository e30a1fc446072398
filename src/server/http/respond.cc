#include "server/http/respond.h"

namespace causeway::server {

AnswerHead head_for(const ServerContext& context, const Incoming& incoming) {
  AnswerHead head;
  head.http_1_1 = incoming.http_1_1;
  head.keep_alive = incoming.keep_alive && !context.draining;
  return head;
}

asio::awaitable<bool> respond_error(Connection& connection, const Incoming& incoming,
                                    const ApiError& error) {
  AnswerHead head = head_for(connection.context(), incoming);
  // What the client still sends of a body is not read as the next request.
  head.keep_alive = head.keep_alive && !incoming.has_body;
  const std::string answer = error_answer(error, head, incoming.routed.head);
  if (!co_await connection.write(answer)) co_return false;
  co_return head.keep_alive;
}

asio::awaitable<bool> respond(Connection& connection, const Incoming& incoming,
                              std::string_view body, std::string_view content_type, int status) {
  AnswerHead content;
  content.status = status;
  content.content_type = content_type;
  const bool more = co_await respond_with(connection, incoming, content, body);
  co_return more;
}

asio::awaitable<bool> respond_with(Connection& connection, const Incoming& incoming,
                                   const AnswerHead& content, std::string_view body) {
  AnswerHead head = head_for(connection.context(), incoming);
  head.status = content.status;
  head.content_type = content.content_type;
  head.security_policy = content.security_policy;
  head.keep_alive = head.keep_alive && !incoming.has_body;
  std::string out;
  append_head(out, head, body.size());
  if (!incoming.routed.head) out += body;
  if (!co_await connection.write(out)) co_return false;
  co_return head.keep_alive;
}

asio::awaitable<bool> respond_either(Connection& connection, const Incoming& incoming,
                                     const MaybeError& error, std::string_view body, int status) {
  bool more = false;
  if (error) {
    more = co_await respond_error(connection, incoming, *error);
  } else {
    more = co_await respond(connection, incoming, body, "application/json", status);
  }
  co_return more;
}

}  // namespace causeway::server
