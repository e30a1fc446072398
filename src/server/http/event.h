// A flag that a coroutine can wait for. Everything on one I/O thread, so that nothing is lost
// between looking and waiting.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace causeway::server {

namespace asio = boost::asio;

class Event {
 public:
  explicit Event(asio::io_context& io) : timer_(io, asio::steady_timer::time_point::max()) {}

  void set() {
    set_ = true;
    timer_.cancel();
  }
  // Returns when set, and clears it. One waiter at a time.
  asio::awaitable<void> wait() {
    boost::system::error_code cancelled;
    while (!set_) {
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    set_ = false;
  }

 private:
  asio::steady_timer timer_;
  bool set_ = false;
};

}  // namespace causeway::server
