#include "server/http/worker.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <iterator>

#include "server/http/connection.h"
#include "server/http/stream.h"

namespace causeway::server {
namespace {

// Deadlines are seconds; this is how exactly they are kept.
constexpr std::chrono::milliseconds kSweepPeriod{50};

}  // namespace

Worker::Worker(int index, int count, const Clock& clock)
    : index_(index), count_(count), clock_(clock) {
  io_.emplace(1);
}

void Worker::run() {
  asio::co_spawn(*io_, sweep(), asio::detached);
  io_->run();
}

void Worker::destroy() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  io_.reset();
}

void Worker::deliver(std::vector<Arrived> arrived) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  if (inbox_.empty()) {
    inbox_ = std::move(arrived);
  } else {
    std::move(arrived.begin(), arrived.end(), std::back_inserter(inbox_));
  }
  if (std::exchange(handing_on_, true)) return;
  asio::post(*io_, [this] { hand_on(); });
}

void Worker::hand_on() {
  std::vector<Arrived> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(inbox_);
    handing_on_ = false;
  }
  for (Arrived& one : arrived) {
    const auto found = routes_.find(one.output.request);
    if (found == routes_.end()) continue;  // its client has gone
    const Target target = found->second;
    if (one.output.finished) routes_.erase(found);
    target.stream->deliver({target.choice, one.at, std::move(one.output)});
  }
}

bool Worker::close_idlest() {
  std::int64_t left = idle_left_.load();
  do {
    if (left <= 0) return false;
  } while (!idle_left_.compare_exchange_weak(left, left - 1));
  asio::post(*io_, [this] { close_first_idle(); });
  return true;
}

void Worker::close_first_idle() {
  if (idle_.empty()) {
    ++idle_left_;
    return;
  }
  Connection* const longest = idle_.front();
  idle_.pop_front();
  longest->close_idle();
}

void Worker::abort(bool all) {
  for (Connection* connection : connections_) connection->abort(all);
}

asio::awaitable<void> Worker::sweep() {
  asio::steady_timer timer(*io_);
  while (true) {
    timer.expires_after(kSweepPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    const Nanos now = clock_.now();
    for (Connection* connection : connections_) connection->sweep(now);
  }
}

}  // namespace causeway::server
