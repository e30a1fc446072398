// Serves one request that came by the admin port: it is parsed, FleetCore decides, and its end is
// waited for.
#pragma once

#include <string>

#include "server/http/connection.h"

namespace causeway::server {

// Serves a route that takes a body. False: the connection must be closed. A client that leaves
// takes its ask back, as far as that has not begun.
asio::awaitable<bool> administer(Connection& connection, const Incoming& incoming,
                                 std::string body);

}  // namespace causeway::server
