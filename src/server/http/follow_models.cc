#include "server/http/follow_models.h"

#include <array>
#include <charconv>
#include <optional>

#include "server/api/answer_writer.h"
#include "server/http/respond.h"
#include "server/model_watch.h"

namespace causeway::server {
namespace {

constexpr Nanos kLook = millis(100);  // at the fleet
const asio::const_buffer kLineEnd("\r\n", 2);

// The one that asks is counted already.
bool are_too_many(ServerContext& context) {
  const std::lock_guard lock(context.mutex);
  return context.followers > kFollowersMax;
}

class Follower {
 public:
  Follower(Connection& connection, const Incoming& incoming)
      : connection_(connection), context_(connection.context()), incoming_(incoming) {}

  asio::awaitable<void> run() {
    connection_.watch();
    co_await look();
    place_ = context_.models.place();
    std::string events;
    AnswerHead head = head_for(context_, incoming_);
    head.keep_alive = false;
    append_event_stream_head(events, head);
    next_keep_alive_ = connection_.now() + context_.options.limits.keep_alive_period;
    bool written = co_await connection_.write(events);
    while (written && !connection_.aborted() && !connection_.peer_gone()) {
      connection_.wake_at(connection_.now() + kLook);
      co_await connection_.news().wait();
      co_await look();
      auto news = context_.models.take(place_);
      if (!news) break;  // it is too slow
      events = *std::move(news);
      if (events.empty() && connection_.now() >= next_keep_alive_) events = kEventKeepAlive;
      if (events.empty()) continue;
      next_keep_alive_ = connection_.now() + context_.options.limits.keep_alive_period;
      written = co_await write(events);
    }
    co_await connection_.unwatch();
  }

 private:
  // On a preparing thread, as there may be many models.
  asio::awaitable<void> look() {
    auto work = [this] { context_.models.look(*context_.fleet, connection_.now(), kLook); };
    co_await offload(*context_.pool, connection_.worker(), work);
  }

  asio::awaitable<bool> write(const std::string& events) {
    std::array<char, 20> size;
    const auto end = std::to_chars(size.data(), size.data() + size.size(), events.size(), 16).ptr;
    const std::string front(size.data(), end);
    const std::array<asio::const_buffer, 4> pieces = {asio::buffer(front), kLineEnd,
                                                      asio::buffer(events), kLineEnd};
    bool written = false;
    if (incoming_.http_1_1) {
      written = co_await connection_.write(pieces);
    } else {
      written = co_await connection_.write(events);
    }
    co_return written;
  }

  Connection& connection_;
  ServerContext& context_;
  const Incoming& incoming_;
  std::int64_t place_ = 0;
  Nanos next_keep_alive_;
};

}  // namespace

asio::awaitable<bool> follow_models(Connection& connection, const Incoming& incoming) {
  const Counted counted(connection.context(), &ServerContext::followers);
  if (are_too_many(connection.context())) {
    const ApiError error = queue_full("too many follow what becomes of models");
    const bool more = co_await respond_error(connection, incoming, error);
    co_return more;
  }
  if (incoming.routed.head) {
    const bool more = co_await respond(connection, incoming, {}, "text/event-stream");
    co_return more;
  }
  Follower follower(connection, incoming);
  co_await follower.run();
  co_return false;
}

}  // namespace causeway::server
