// A connection's life: request after request, until it closes.
#pragma once

#include "server/http/connection.h"

namespace causeway::server {

// The coroutine of one connection, which `context` has counted. `context` and `worker` outlive it.
asio::awaitable<void> run_session(ServerContext& context, Worker& worker, tcp::socket socket,
                                  Door door);

}  // namespace causeway::server
