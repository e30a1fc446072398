// The parts that all connections of a server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "base/random.h"
#include "grammar/compiler.h"
#include "server/http/worker.h"
#include "server/kept_models.h"
#include "server/model_watch.h"
#include "server/pause.h"
#include "server/response_store.h"
#include "server/server.h"
#include "server/tracing/trace_exporter.h"

namespace causeway::server {

class Metrics;

struct ServerContext {
  ServerContext(const ServerOptions& of_server, const Clock& with_clock)
      : options(of_server), clock(with_clock), responses(of_server.responses) {}

  static constexpr std::size_t kSmallBodyBytes = std::size_t{64} << 10;

  const ServerOptions& options;
  const Clock& clock;
  fleet::Fleet* fleet = nullptr;  // set from start() to stop()
  Metrics* metrics = nullptr;
  TraceExporter* traces = nullptr;              // null: no traces are sent
  ModelWatch models;                            // for clients that follow the models
  KeptModels kept;                              // what `keep_alive` of requests asked for
  ResponseStore responses;                      // answers of /v1/responses that are kept
  asio::thread_pool* pool = nullptr;            // prepares requests
  asio::thread_pool* large_pool = nullptr;      // prepares those of large bodies
  std::unique_ptr<grammar::Compiler> compiler;  // set from start() until the workers have ended
  std::atomic<bool> draining{false};
  Pause pause;                       // see paused()
  std::atomic<bool> probing{false};  // a check by /health?deep=1 is under way
  std::atomic<std::uint64_t> draws{0};
  std::atomic<std::uint64_t> id_draws{0};
  std::atomic<std::int64_t> bodies_bytes{0};  // of large bodies that are read or prepared: BodyRoom

  // What is held back now. Nothing while the server drains: what is there may then end.
  Pause::Kind paused() const { return draining ? Pause::Kind::kNone : pause.kind(); }
  // Changes whenever that may have changed.
  std::uint64_t pause_changes() const { return 2 * std::uint64_t{pause.changes()} + draining; }

  // The next number of a sequence that options.seed determines. Any thread.
  std::uint64_t draw() { return mix64(mix64(options.seed) + draws.fetch_add(1)); }
  // The same of options.id_seed.
  std::uint64_t draw_id() { return mix64(mix64(options.id_seed) + id_draws.fetch_add(1)); }

  // Where a body of so many bytes becomes a request.
  asio::thread_pool& pool_for(std::size_t body_bytes) const {
    return body_bytes > kSmallBodyBytes ? *large_pool : *pool;
  }

  // The number of connections and generations, and a wait until there are fewer.
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t connections = 0;        // all
  std::int64_t admin_connections = 0;  // the part of `connections` of the admin port
  std::int64_t generations = 0;
  std::int64_t followers = 0;  // clients that follow the models
};

inline bool is_asleep(const ServerContext& context) {
  return context.paused() != Pause::Kind::kNone || context.fleet->asleep();
}

// Counts one connection or generation while it lives.
class Counted {
 public:
  struct Already {};  // the caller has counted it already

  Counted(ServerContext& context, std::int64_t ServerContext::*count)
      : Counted(context, count, Already()) {
    const std::lock_guard lock(context_.mutex);
    ++(context_.*count_);
  }
  Counted(ServerContext& context, std::int64_t ServerContext::*count, Already)
      : context_(context), count_(count) {}
  ~Counted() {
    const std::lock_guard lock(context_.mutex);
    --(context_.*count_);
    context_.changed.notify_all();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  ServerContext& context_;
  std::int64_t ServerContext::*count_;
};

// Runs `work` on a preparing thread and resumes on the worker's thread. `work` belongs to the
// awaiting coroutine, which does nothing else meanwhile; its exceptions are thrown here.
template <typename Work>
asio::awaitable<void> offload(asio::thread_pool& pool, Worker& worker, Work& work) {
  Event done(worker.io());
  std::exception_ptr thrown;
  asio::post(pool, [&pool_work = work, &done, &thrown, &worker] {
    try {
      pool_work();
    } catch (...) {
      thrown = std::current_exception();
    }
    asio::post(worker.io(), [&done] { done.set(); });
  });
  co_await done.wait();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace causeway::server
