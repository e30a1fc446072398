// Serves one request that generates, from its body to its last byte.
#pragma once

#include <string>

#include "server/http/connection.h"

namespace causeway::server {

// Answers on `connection`, whole or as events, errors included. Requests to the fleet have ended or
// are cancelled when it returns. False: the connection must be closed.
asio::awaitable<bool> generate(Connection& connection, const Incoming& incoming, std::string body,
                               Nanos arrival);

}  // namespace causeway::server
