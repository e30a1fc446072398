#include "server/http/connection.h"

#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

namespace causeway::server {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 4096;
// Requests that a client sends ahead while one is served; beyond it they wait in the kernel.
constexpr std::size_t kReadAheadBytesMax = 64 << 10;
constexpr std::size_t kDiscardBytesMax = 1 << 20;
constexpr Nanos kLingerTime = seconds(1);

ApiError too_slow(const char* what) {
  ApiError error = bad_request(std::string("the ") + what + " did not arrive in time");
  error.status = 408;
  error.code = "request_timeout";
  return error;
}

ApiError no_room() {
  ApiError error = queue_full(
      "the large bodies of other requests take all the memory that there is for them; try again "
      "later");
  error.status = 503;
  return error;
}

}  // namespace

Connection::Connection(ServerContext& context, Worker& worker, tcp::socket socket, Door door)
    : context_(context),
      worker_(worker),
      socket_(std::move(socket)),
      door_(door),
      buffer_(kReadAheadBytesMax + kReadBytes + context.options.limits.header_bytes_max),
      news_(worker.io()),
      watch_ended_(worker.io()),
      place_(worker.enter(this)) {
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
}

Connection::~Connection() {
  if (idle_) worker_.end_idle(*idle_);
  worker_.leave(place_);
}

void Connection::drop_empty_buffer() {
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
}

asio::awaitable<bool> Connection::wait_for_request() {
  drop_empty_buffer();
  if (buffer_.size() > 0) co_return true;
  error_code error;
  std::size_t got = 0;
  limit(context_.options.limits.idle_time_max);
  if (door_ == Door::kPublic) idle_ = worker_.begin_idle(this);
  co_await socket_.async_wait(tcp::socket::wait_read,
                              asio::redirect_error(asio::use_awaitable, error));
  if (!error) {
    got = co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                           asio::redirect_error(asio::use_awaitable, error));
  }
  if (idle_) worker_.end_idle(*std::exchange(idle_, std::nullopt));
  unlimit();
  buffer_.commit(got);
  if (got > 0) gives_way_ = false;  // a request has come all the same
  co_return got > 0 && !closing_;
}

asio::awaitable<MaybeError> Connection::read_head(Parser& parser) {
  error_code error;
  limit(context_.options.limits.header_time_max);
  co_await http::async_read_header(socket_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  const bool late = unlimit();
  if (!error) co_return std::nullopt;
  if (closing_) co_return draining();
  if (late) co_return too_slow("header");
  co_return parse_failure(error, context_.options.limits);
}

asio::awaitable<MaybeError> Connection::read_body(Parser& parser, bool expects_continue,
                                                  BodyRoom& room) {
  if (expects_continue && !co_await write("HTTP/1.1 100 Continue\r\n\r\n")) {
    co_return parse_failure(http::error::partial_message, context_.options.limits);
  }
  error_code error;
  limit(context_.options.limits.body_time_max);
  parser.eager(true);
  bool fits = true;
  while (!error && fits && !parser.is_done()) {
    co_await http::async_read_some(socket_, buffer_, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
    fits = room.grow_to(parser.get().body().size());
  }
  const bool late = unlimit();
  if (!fits) co_return no_room();
  if (!error) co_return std::nullopt;
  if (closing_) co_return draining();
  if (late) co_return too_slow("body");
  co_return parse_failure(error, context_.options.limits);
}

asio::awaitable<bool> Connection::write(std::span<const asio::const_buffer> pieces) {
  error_code error;
  limit(context_.options.limits.write_time_max);
  co_await asio::async_write(socket_, pieces, asio::redirect_error(asio::use_awaitable, error));
  unlimit();
  if (error) peer_gone_ = true;
  co_return !error;
}

asio::awaitable<bool> Connection::write(std::string_view bytes) {
  const asio::const_buffer piece(bytes.data(), bytes.size());
  const bool written = co_await write(std::span(&piece, 1));
  co_return written;
}

asio::awaitable<void> Connection::close() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  buffer_.clear();
  std::size_t discarded = 0;
  const bool at_once = closing_ || gives_way_;
  if (!at_once) limit(kLingerTime);
  while (!error && !at_once && !timed_out_ && !closing_ && discarded < kDiscardBytesMax) {
    discarded += co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                                  asio::redirect_error(asio::use_awaitable, error));
  }
  unlimit();
  socket_.close(error);
}

void Connection::watch() {
  peer_gone_ = false;
  unwatching_ = false;
  drop_empty_buffer();
  read_ahead();
}

void Connection::read_ahead() {
  watching_ = !unwatching_ && buffer_.size() < kReadAheadBytesMax;
  if (!watching_) return watch_ended_.set();
  // Most clients send nothing until they are answered: a buffer is there for those that do.
  socket_.async_wait(tcp::socket::wait_read, [this](error_code error) {
    if (error || unwatching_) return end_watch(error);
    socket_.async_read_some(buffer_.prepare(kReadBytes),
                            [this](error_code failed, std::size_t got) {
                              buffer_.commit(got);
                              if (failed) return end_watch(failed);
                              read_ahead();
                            });
  });
}

void Connection::end_watch(const error_code& error) {
  watching_ = false;
  if (error && (error != asio::error::operation_aborted || !unwatching_)) peer_gone_ = true;
  watch_ended_.set();
  news_.set();
}

asio::awaitable<void> Connection::unwatch() {
  unwatching_ = true;
  while (watching_) {
    cancel();
    co_await watch_ended_.wait();
  }
}

void Connection::sweep(Nanos now) {
  if (deadline_ && now >= *deadline_) {
    // At every sweep until unlimit(): where a piece has just arrived there is nothing to cancel,
    // and reading goes on.
    timed_out_ = true;
    cancel();
  }
  if (wake_at_ && now >= *wake_at_) {
    wake_at_.reset();
    news_.set();
  }
  const std::uint64_t changes = context_.pause_changes();
  if (std::exchange(pause_changes_, changes) != changes) news_.set();
}

void Connection::abort(bool all) {
  aborted_ = true;
  news_.set();
  if (!all) return;
  closing_ = true;
  cancel();
}

void Connection::close_idle() {
  idle_.reset();
  gives_way_ = true;
  cancel();
}

void Connection::cancel() {
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::limit(Nanos duration) {
  timed_out_ = false;
  deadline_ = now() + duration;
}

bool Connection::unlimit() {
  deadline_.reset();
  return timed_out_;
}

}  // namespace causeway::server
