// Whole answers to what has come in: heads, bodies, and whether the connection goes on.
#pragma once

#include <string_view>

#include "server/http/answer_head.h"
#include "server/http/connection.h"

namespace causeway::server {

AnswerHead head_for(const ServerContext& context, const Incoming& incoming);

// All: false ends the connection. The caller awaits the end, and keeps what it passes until then.
asio::awaitable<bool> respond_error(Connection& connection, const Incoming& incoming,
                                    const ApiError& error);
asio::awaitable<bool> respond(Connection& connection, const Incoming& incoming,
                              std::string_view body,
                              std::string_view content_type = "application/json", int status = 200);
// The content's type and policy are those of `content`.
asio::awaitable<bool> respond_with(Connection& connection, const Incoming& incoming,
                                   const AnswerHead& content, std::string_view body);
// The error if there is one, else the body, as JSON.
asio::awaitable<bool> respond_either(Connection& connection, const Incoming& incoming,
                                     const MaybeError& error, std::string_view body,
                                     int status = 200);

}  // namespace causeway::server
