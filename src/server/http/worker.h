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

// An output, and when the engine produced it.
struct Arrived {
  request::Output output;
  Nanos at;
};

class Worker {
 public:
  // The `index`-th of `count` workers. Its ids are those that equal `index` modulo `count`.
  Worker(int index, int count, const Clock& clock);

  asio::io_context& io() { return *io_; }
  const Clock& clock() const { return clock_; }

  // The thread's body, which returns after stop().
  void run();
  // Any thread.
  void stop() { io_->stop(); }
  // Destroys the coroutines that are left; call it after run() has returned. From now on deliver()
  // drops outputs.
  void destroy();

  // Hands outputs to the worker's thread. Any thread; takes a short lock.
  void deliver(std::vector<Arrived> arrived);

  RequestId next_id() { return RequestId(index_ + count_ * next_id_++); }
  void attach(RequestId id, Stream* stream, std::size_t choice) { routes_[id] = {stream, choice}; }
  void detach(RequestId id) { routes_.erase(id); }

  using Place = std::list<Connection*>::iterator;
  Place enter(Connection* connection) {
    return connections_.insert(connections_.end(), connection);
  }
  void leave(Place place) { connections_.erase(place); }
  // The public port's connections that wait for a request, the longest wait first.
  Place begin_idle(Connection* connection) {
    ++idle_left_;
    return idle_.insert(idle_.end(), connection);
  }
  void end_idle(Place place) {
    idle_.erase(place);
    --idle_left_;
  }
  // Closes the connection that has waited for a request for longest; false: none waits. When
  // requests arrive on all of them meanwhile, none is closed. Any thread; does not block.
  bool close_idlest();
  // Ends all generations or, with `all`, all connections, as soon as these notice it.
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
  // The size of idle_, less the connections that will be closed.
  std::atomic<std::int64_t> idle_left_{0};

  std::mutex mutex_;  // guards the three below
  std::vector<Arrived> inbox_;
  bool handing_on_ = false;  // a hand-over was posted and has not run yet
  bool closed_ = false;

  // The last member, because its destruction ends coroutines that use the members above.
  std::optional<asio::io_context> io_;
};

}  // namespace causeway::server
