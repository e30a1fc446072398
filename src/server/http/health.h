// Tells whether the server is able to serve: by what is known, or by having a model generate a
// token.
#pragma once

#include "server/http/connection.h"

namespace causeway::server {

// Why the server is not able to serve, by what is known already; no device is asked.
MaybeError what_ails(const ServerContext& context);

// Has a model that is on a slice generate one token within ServerLimits::deep_health_time_max, and
// answers. One check runs at a time, and others wait for it within that time. No model is woken:
// when none is on a slice the answer is that of what_ails(). False: the connection must be closed.
asio::awaitable<bool> answer_deep_health(Connection& connection, const Incoming& incoming);

}  // namespace causeway::server
