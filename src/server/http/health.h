// Tells whether the server is able to serve: by what is known, or by having a model generate a
// token.
#pragma once

#include "server/http/connection.h"

namespace causeway::server {

// Why it is not; nothing is asked of a device.
MaybeError what_ails(const ServerContext& context);

// Has a model that is on a slice generate one token within ServerLimits::deep_health_time_max, and
// answers. One at a time: others wait for their turn within that time. No model is woken: where
// none is on a slice the answer is that of what_ails(). False ends the connection.
asio::awaitable<bool> answer_deep_health(Connection& connection, const Incoming& incoming);

}  // namespace causeway::server
