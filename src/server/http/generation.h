// Serves one request that generates, from its body to its last byte.
#pragma once

#include "server/http/body_room.h"
#include "server/http/connection.h"

namespace causeway::server {

// Answers on `connection`, whole or as events, errors included. Requests to the fleet have ended or
// are cancelled when it returns. False: the connection must be closed. `body` is dropped once it is
// read.
asio::awaitable<bool> generate(Connection& connection, const Incoming& incoming, Body& body,
                               Nanos arrival);

}  // namespace causeway::server
