// One I/O thread's share of the server: its io_context, its connections with their deadlines, and
// the streams whose outputs it hands on. All of it belongs to that thread; deliver() and
// close_idlest() alone are called from others.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/clock.h"
#include "request/request.h"
#include "server/http/event.h"

namespace causeway::server {

class Connection;
class Stream;

// An output with the time at which the engine gave it.
struct Arrived {
  request::Output output;
  Nanos at;
};

class Worker {
 public:
  // The `index`-th of `count` workers: the ids it gives out are index modulo count.
  Worker(int index, int count, const Clock& clock);

  asio::io_context& io() { return *io_; }
  const Clock& clock() const { return clock_; }

  // The thread's body: until stop().
  void run();
  // Any thread.
  void stop() { io_->stop(); }
  // After run() has returned: destroys what is left of coroutines. deliver() drops from now on.
  void destroy();

  // Any thread; does not block but for the moment of handing over.
  void deliver(std::vector<Arrived> arrived);

  RequestId next_id() { return RequestId(index_ + count_ * next_id_++); }
  void attach(RequestId id, Stream* stream, std::size_t choice) { routes_[id] = {stream, choice}; }
  void detach(RequestId id) { routes_.erase(id); }

  using Place = std::list<Connection*>::iterator;
  Place enter(Connection* connection) {
    return connections_.insert(connections_.end(), connection);
  }
  void leave(Place place) { connections_.erase(place); }
  // Of those by the first port: which wait for a request, in the order in which they began to.
  Place begin_idle(Connection* connection) {
    ++idle_left_;
    return idle_.insert(idle_.end(), connection);
  }
  void end_idle(Place place) {
    idle_.erase(place);
    --idle_left_;
  }
  // Any thread; does not block. Has the connection closed that has waited for longest; false: none
  // waits. If requests come on all of them before its turn, none is closed.
  bool close_idlest();
  // Ends generations (`all` false) or connections, as soon as they notice.
  void abort(bool all);

 private:
  struct Target {
    Stream* stream = nullptr;
    std::size_t choice = 0;
  };

  void close_first_idle();
  void hand_on();
  asio::awaitable<void> sweep();

  std::int64_t index_, count_;
  std::int64_t next_id_ = 0;
  const Clock& clock_;
  std::unordered_map<RequestId, Target> routes_;
  std::list<Connection*> connections_;
  std::list<Connection*> idle_;
  std::atomic<std::int64_t> idle_left_{0};  // size of idle_, less those that are to be closed

  std::mutex mutex_;  // guards the three below
  std::vector<Arrived> inbox_;
  bool handing_on_ = false;  // posted, not yet run
  bool closed_ = false;

  // Last: its destruction ends coroutines, which leave the members above.
  std::optional<asio::io_context> io_;
};

}  // namespace causeway::server
