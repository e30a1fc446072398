// GET /models/sse of the admin port: events of models, until the client leaves.
#pragma once

#include "server/http/connection.h"

namespace causeway::server {

// 429 beyond kFollowersMax. A follower that takes nothing for ServerLimits::write_time_max, or that
// falls behind by more events than are kept, is dropped. Always ends the connection.
asio::awaitable<bool> follow_models(Connection& connection, const Incoming& incoming);

inline constexpr std::int64_t kFollowersMax = 16;

}  // namespace causeway::server
