// One client's socket: reading requests within time limits, writing answers, and noticing while a
// request is served that the client has gone. I/O thread only.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "server/http/body_room.h"
#include "server/http/context.h"
#include "server/http/incoming.h"
#include "server/http/worker.h"

namespace causeway::server {

using asio::ip::tcp;

class Connection {
 public:
  Connection(ServerContext& context, Worker& worker, tcp::socket socket, Door door);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  ServerContext& context() { return context_; }
  Worker& worker() { return worker_; }
  Door door() const { return door_; }
  Nanos now() const { return worker_.clock().now(); }

  // Waits for a request's first byte; false: the client left, or was idle too long.
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<MaybeError> read_head(Parser& parser);
  // Reads the body, as far as `room` lets it grow; tells the client to continue first, if it waits
  // for that.
  asio::awaitable<MaybeError> read_body(Parser& parser, bool expects_continue, BodyRoom& room);
  // Writes all of it; false: the client has gone or does not read.
  asio::awaitable<bool> write(std::span<const asio::const_buffer> pieces);
  asio::awaitable<bool> write(std::string_view bytes);
  // Closes the sending side, reads for a moment what the client still sends (otherwise it might
  // never see the answer), and closes the connection.
  asio::awaitable<void> close();

  // Reads ahead while a request is served, and sets news() when the client leaves. Every watch()
  // must be followed by unwatch() before anything else is read.
  void watch();
  asio::awaitable<void> unwatch();
  // The client has closed at least its sending side.
  bool peer_gone() const { return peer_gone_; }
  Event& news() { return news_; }

  // Sets news() once at or after `at`.
  void wake_at(Nanos at) { wake_at_ = at; }
  // Called by the worker now and then. Sets news() when what the server holds back has changed.
  void sweep(Nanos now);
  // Ends the present generation or, with `all`, whatever the connection does.
  void abort(bool all);
  bool aborted() const { return aborted_; }
  // Called by the worker, which has removed it from the idle connections, because another
  // connection needs its place.
  void close_idle();
  // Ends a write that hangs.
  void give_up_writing() { cancel(); }

 private:
  void cancel();
  // Releases the buffer if it is empty, so that waiting connections have none.
  void drop_empty_buffer();
  void read_ahead();
  void end_watch(const boost::system::error_code& error);
  void limit(Nanos duration);
  // Ends the time limit, and returns whether it had passed.
  bool unlimit();

  ServerContext& context_;
  Worker& worker_;
  tcp::socket socket_;
  const Door door_;
  // Bounded, because the line before a chunk, whose length the parser does not limit, must fit in
  // it.
  boost::beast::flat_buffer buffer_;
  Event news_;
  Event watch_ended_;
  std::optional<Nanos> deadline_;
  std::optional<Nanos> wake_at_;
  std::uint64_t pause_changes_ = 0;  // that it knows of
  bool timed_out_ = false;
  bool watching_ = false;
  bool unwatching_ = false;
  bool peer_gone_ = false;
  bool aborted_ = false;
  bool closing_ = false;
  bool gives_way_ = false;  // close_idle() was called
  Worker::Place place_;
  std::optional<Worker::Place> idle_;  // set while it waits for a request
};

}  // namespace causeway::server
