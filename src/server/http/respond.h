// Whole answers to what has come in: heads, bodies, and whether the connection goes on.
#pragma once

#include <string>
#include <string_view>

#include "server/http/answer_head.h"
#include "server/http/connection.h"

namespace causeway::server {

AnswerHead head_for(const ServerContext& context, const Incoming& incoming);

// All: false ends the connection.
asio::awaitable<bool> respond_error(Connection& connection, Incoming incoming, ApiError error);
asio::awaitable<bool> respond(Connection& connection, Incoming incoming, std::string body,
                              std::string_view content_type = "application/json", int status = 200);
// The content's type and policy are those of `content`.
asio::awaitable<bool> respond_with(Connection& connection, Incoming incoming, AnswerHead content,
                                   std::string body);
// The error if there is one, else the body, as JSON.
asio::awaitable<bool> respond_either(Connection& connection, Incoming incoming, MaybeError error,
                                     std::string body, int status = 200);

}  // namespace causeway::server
