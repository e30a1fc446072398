#include "server/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "server/http/answer_head.h"
#include "server/http/context.h"
#include "server/http/session.h"
#include "server/metrics.h"

namespace causeway::server {
namespace {

using boost::system::error_code;

// How long stop() and an ended drain() wait for coroutines to notice.
constexpr std::chrono::milliseconds kNoticeTime{2000};
constexpr std::chrono::milliseconds kAcceptRetryTime{50};
constexpr std::chrono::milliseconds kKeepPeriod{100};  // how exactly models leave
// Connections beyond the limit while idle ones are being closed for them. Where so many are, the
// next waits until some have gone: a crowd arrives faster than idle ones are closed.
constexpr std::int64_t kGivingWayMax = 64;
constexpr std::chrono::milliseconds kGivingWayPeriod{1};
constexpr int kGivingWayTries = 200;

enum class Room { kThere, kSoon, kNone };

Result<tcp::endpoint> endpoint_of(const std::string& host, std::uint16_t port) {
  error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    return invalid_argument("host `" + host +
                            "` is not an IP address; 127.0.0.1 serves this machine, 0.0.0.0 all");
  }
  return tcp::endpoint(address, port);
}

// A client that reaches the port may unload models, so other machines need a key.
Status check_admin(const AdminOptions& admin) {
  CAUSEWAY_ASSIGN(const tcp::endpoint endpoint, endpoint_of(admin.host, admin.port));
  if (endpoint.address().is_loopback() || !admin.keys.empty()) return {};
  return invalid_argument("it would be open to every client that reaches " + admin.host +
                          ": give a key for administration, or a host of this machine alone");
}

// What requests say by keep_alive is asked of the fleet as the operator asks.
Status check_keep_alive(const ServerOptions& options) {
  if (!options.limits.api.keep_alive) return {};
  if (!options.admin) {
    return invalid_argument("requests may say keep_alive only where an admin port is open");
  }
  CAUSEWAY_ASSIGN(const tcp::endpoint endpoint, endpoint_of(options.host, options.port));
  if (endpoint.address().is_loopback() || !options.admin->keys.empty()) return {};
  return invalid_argument("keep_alive would be open to every client that reaches " + options.host +
                          ": give a key for administration, or a host of this machine alone");
}

}  // namespace

class Server::Impl final : public engine::OutputSink {
 public:
  Impl(ServerOptions options, const Clock& clock)
      : options_(std::move(options)), context_(options_, clock) {
    options_.limits.api.keeps_responses = context_.responses.keeps();
    const int count = std::max(options_.threads, 1);
    for (int i = 0; i < count; ++i) workers_.push_back(std::make_unique<Worker>(i, count, clock));
  }

  void on_outputs(std::vector<request::Output> outputs) override;
  Status start(fleet::Fleet& fleet);
  bool drain(Nanos grace);
  void stop();
  std::uint16_t port() const { return listener_.port; }
  std::uint16_t admin_port() const { return admin_listener_.port; }

 private:
  // A worker's thread owns the acceptor once started; nullopt: there is none.
  struct Listener {
    std::optional<tcp::acceptor> acceptor;
    std::uint16_t port = 0;
    Door door = Door::kPublic;
  };
  Status listen();
  Status listen(const std::string& host, std::uint16_t port, Listener& out);
  Status start_threads();
  Status start_traces();
  asio::awaitable<void> accept(Listener& listener);
  // Has models leave or stay as requests said.
  asio::awaitable<void> keep_models();
  Status ask(fleet::AskKind kind, ModelId model);
  // Whether one connection more may come, which is counted then; where all places are taken, for an
  // idle one that goes. kSoon: others are going already. On the first worker's thread.
  Room make_room(Door door);
  bool close_an_idle_one();
  asio::awaitable<void> admit(Worker& worker, tcp::socket socket, Door door);
  void abort_all(bool connections);
  // Waits until `count` is zero; false: it is not after `limit`.
  bool wait_for_none(std::int64_t ServerContext::*count, std::chrono::nanoseconds limit);

  ServerOptions options_;
  ServerContext context_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<TraceExporter> traces_;
  std::unique_ptr<asio::thread_pool> pool_;
  std::unique_ptr<asio::thread_pool> large_pool_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Listener listener_;
  Listener admin_listener_{.acceptor = std::nullopt, .door = Door::kAdmin};
  std::vector<std::thread> threads_;  // of workers and of the pool
  std::size_t next_to_give_way_ = 0;  // of workers
  bool serves_ = false;               // all of them run
};

void Server::Impl::on_outputs(std::vector<request::Output> outputs) {
  const Nanos now = context_.clock.now();
  std::vector<std::vector<Arrived>> shares(workers_.size());
  for (request::Output& output : outputs) {
    const auto share = static_cast<std::size_t>(output.request.value) % workers_.size();
    shares[share].push_back({std::move(output), now});
  }
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!shares[i].empty()) workers_[i]->deliver(std::move(shares[i]));
  }
}

Status Server::Impl::listen() {
  CAUSEWAY_TRY(listen(options_.host, options_.port, listener_));
  if (!options_.admin) return {};
  const AdminOptions& admin = *options_.admin;
  Status listens = check_admin(admin);
  if (listens.ok()) listens = listen(admin.host, admin.port, admin_listener_);
  if (!listens.ok()) listener_ = {};
  return std::move(listens).with_context("the admin port");
}

Status Server::Impl::listen(const std::string& host, std::uint16_t port, Listener& out) {
  CAUSEWAY_ASSIGN(const tcp::endpoint endpoint, endpoint_of(host, port));
  error_code error;
  tcp::acceptor& acceptor = out.acceptor.emplace(workers_[0]->io());
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) out.port = acceptor.local_endpoint(error).port();
  if (!error) return {};
  out.acceptor.reset();
  return Error{ErrorCode::kIo, "cannot listen on " + host + ":" + std::to_string(port) + ": " +
                                   error.message() + "; choose another port or host"};
}

Status Server::Impl::start(fleet::Fleet& fleet) {
  CAUSEWAY_CHECK(threads_.empty(), "Server::start is for once");
  CAUSEWAY_TRY(check_keep_alive(options_));
  CAUSEWAY_TRY(listen());
  CAUSEWAY_TRY(start_traces());
  metrics_ = std::make_unique<Metrics>(fleet, options_.metrics);
  context_.fleet = &fleet;
  context_.compiler =
      std::make_unique<grammar::Compiler>(grammar::CompilerOptions(), context_.clock);
  context_.metrics = metrics_.get();
  // Its threads are ours: a pool that cannot start all of its own waits for the others for ever.
  pool_ = std::make_unique<asio::thread_pool>(0);
  context_.pool = pool_.get();
  large_pool_ = std::make_unique<asio::thread_pool>(0);
  context_.large_pool = large_pool_.get();
  Status started = start_threads();
  if (!started.ok()) stop();
  return started;
}

Status Server::Impl::start_traces() {
  if (!options_.traces) return {};
  const TraceOptions& with = *options_.traces;
  auto started = TraceExporter::start(
      with, {.version = options_.version, .instance = hex_of(make_span_id(with.seed, 0))});
  if (!started.ok()) {
    listener_ = {};
    return started.error();
  }
  traces_ = std::move(started).value();
  context_.traces = traces_.get();
  return {};
}

Status Server::Impl::start_threads() {
  try {
    for (auto& worker : workers_) {
      threads_.emplace_back([this] { pool_->attach(); });
      threads_.emplace_back([&worker] { worker->run(); });
    }
    for (std::size_t i = 0; i < (workers_.size() + 1) / 2; ++i) {
      threads_.emplace_back([this] { large_pool_->attach(); });
    }
  } catch (const std::system_error& error) {
    return exhausted(std::string("the server's threads could not be started: ") + error.what() +
                     "; allow this user or container more processes (ulimit -u, pids.max)");
  }
  for (Listener* listener : {&listener_, &admin_listener_}) {
    if (listener->acceptor) asio::co_spawn(workers_[0]->io(), accept(*listener), asio::detached);
  }
  if (options_.limits.api.keep_alive) {
    asio::co_spawn(workers_[0]->io(), keep_models(), asio::detached);
  }
  serves_ = true;
  return {};
}

// How it ends is not waited for.
Status Server::Impl::ask(fleet::AskKind kind, ModelId model) {
  return context_.fleet->ask({.id = workers_[0]->next_id(), .kind = kind, .model = model});
}

asio::awaitable<void> Server::Impl::keep_models() {
  asio::steady_timer timer(workers_[0]->io());
  while (true) {
    timer.expires_after(kKeepPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    const KeptModels::Due due = context_.kept.due(context_.clock.now());
    for (const ModelId model : due.pin) {
      const Status pinned = ask(fleet::AskKind::kPin, model);
      if (!pinned.ok()) spdlog::warn("keep_alive: {}", pinned.error().message);
    }
    for (const ModelId model : due.unload) {
      if (ask(fleet::AskKind::kUnload, model).ok()) context_.kept.done(model);
    }
  }
}

asio::awaitable<void> Server::Impl::accept(Listener& listener) {
  tcp::acceptor& acceptor = *listener.acceptor;
  asio::steady_timer retry(workers_[0]->io());
  for (std::size_t next = 0; acceptor.is_open(); ++next) {
    Worker& worker = *workers_[next % workers_.size()];
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(
        worker.io(), asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      co_await admit(worker, std::move(socket), listener.door);
    } else if (acceptor.is_open()) {
      // Out of descriptors, most likely: connections that end give some back.
      retry.expires_after(kAcceptRetryTime);
      co_await retry.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

// So that clients of the one port do not keep those of the other out, nor those that say nothing
// those that do.
Room Server::Impl::make_room(Door door) {
  const std::lock_guard lock(context_.mutex);
  std::int64_t& admin = context_.admin_connections;
  if (door == Door::kAdmin) {
    if (admin >= options_.admin->connections_max) return Room::kNone;
    ++admin;
  } else {
    const std::int64_t beyond = context_.connections - admin - options_.limits.connections_max;
    if (beyond >= kGivingWayMax) return Room::kSoon;
    if (beyond >= 0 && !close_an_idle_one()) return Room::kNone;
  }
  ++context_.connections;
  return Room::kThere;
}

bool Server::Impl::close_an_idle_one() {
  for (std::size_t tries = 0; tries < workers_.size(); ++tries) {
    if (workers_[next_to_give_way_++ % workers_.size()]->close_idlest()) return true;
  }
  return false;
}

asio::awaitable<void> Server::Impl::admit(Worker& worker, tcp::socket socket, Door door) {
  Room room = make_room(door);
  asio::steady_timer timer(workers_[0]->io());
  for (int tries = 0; room == Room::kSoon && tries < kGivingWayTries; ++tries) {
    timer.expires_after(kGivingWayPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    room = make_room(door);
  }
  if (room != Room::kThere) {
    ApiError error = queue_full("too many connections");
    error.status = 503;
    AnswerHead head;
    head.keep_alive = false;
    const std::string answer = error_answer(error, head, false);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(answer), ignored);
    co_return;
  }
  asio::post(worker.io(), [this, &worker, door, moved = std::move(socket)]() mutable {
    asio::co_spawn(worker.io(), run_session(context_, worker, std::move(moved), door),
                   asio::detached);
  });
}

void Server::Impl::abort_all(bool connections) {
  for (auto& worker : workers_) {
    asio::post(worker->io(), [&worker, connections] { worker->abort(connections); });
  }
}

bool Server::Impl::wait_for_none(std::int64_t ServerContext::*count,
                                 std::chrono::nanoseconds limit) {
  std::unique_lock lock(context_.mutex);
  return context_.changed.wait_for(lock, limit, [&] { return context_.*count == 0; });
}

bool Server::Impl::drain(Nanos grace) {
  context_.draining = true;
  if (wait_for_none(&ServerContext::generations, chrono_of(grace))) return true;
  abort_all(false);
  wait_for_none(&ServerContext::generations, kNoticeTime);
  return false;
}

void Server::Impl::stop() {
  if (!listener_.acceptor) return;
  context_.draining = true;
  if (serves_) {
    asio::post(workers_[0]->io(), [this] {
      error_code ignored;
      listener_.acceptor->close(ignored);
      if (admin_listener_.acceptor) admin_listener_.acceptor->close(ignored);
    });
    abort_all(true);
    wait_for_none(&ServerContext::connections, kNoticeTime);
  }
  if (pool_) pool_->stop();
  if (large_pool_) large_pool_->stop();
  for (auto& worker : workers_) worker->stop();
  for (std::thread& thread : threads_) thread.join();
  context_.compiler.reset();  // it posts to the workers
  listener_.acceptor.reset();
  admin_listener_.acceptor.reset();
  // What is left of coroutines cancels its requests, while there is a fleet to tell.
  for (auto& worker : workers_) worker->destroy();
  threads_.clear();
  context_.fleet = nullptr;
  if (traces_) traces_->stop();
}

Server::Server(ServerOptions options, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), clock)) {}
Server::~Server() { stop(); }
engine::OutputSink& Server::sink() { return *impl_; }
Status Server::start(fleet::Fleet& fleet) { return impl_->start(fleet); }
std::uint16_t Server::port() const { return impl_->port(); }
std::uint16_t Server::admin_port() const { return impl_->admin_port(); }
bool Server::drain(Nanos grace) { return impl_->drain(grace); }
void Server::stop() { impl_->stop(); }

}  // namespace causeway::server
