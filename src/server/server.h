// The HTTP side of Causeway: OpenAI's API over a Fleet.
//
//   sockets ── accept ──> I/O threads (one io_context each; one coroutine a connection)
//                            │ body            ▲ events of the streams of this thread
//                            ▼                 │
//                     preparing threads     inbox a thread <── on_outputs (engine thread)
//                     (JSON, template,
//                      tokens)  ──> Fleet::submit
//
// Large bodies are prepared by threads of their own: tokenizing one may take seconds, in which
// small ones go on.
//
// A fleet needs the server's sink and the server needs the fleet, so: construct the server, give
// sink() to the fleet, start(fleet); at the end stop() the server, destroy the fleet, destroy the
// server. Signals belong to the program: on SIGTERM it calls drain() and then stop().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/slice_handle.h"
#include "fleet/fleet.h"
#include "server/api/generation_request.h"
#include "server/metrics.h"
#include "server/response_store.h"
#include "server/tracing/trace_exporter.h"

namespace causeway::server {

struct ServerLimits {
  std::size_t body_bytes_max = std::size_t{8} << 20;
  // The most that all bodies above 64 KiB take, while they are read and prepared; beyond it: 503.
  std::int64_t bodies_bytes_max = std::int64_t{1} << 30;
  std::size_t header_bytes_max = std::size_t{16} << 10;
  // Beyond it the connection that has been idle for longest is closed; if none is idle, the new one
  // gets a 503.
  std::int64_t connections_max = 8192;
  // Tokens that may wait behind a write that the client does not take; beyond it the request is
  // cancelled.
  std::size_t queued_tokens_max = 4096;
  Nanos header_time_max = seconds(10);  // from a request's first byte; beyond it: 408
  Nanos body_time_max = seconds(60);
  Nanos idle_time_max = seconds(75);         // between requests
  Nanos write_time_max = seconds(30);        // one write without an end: the client is gone
  Nanos keep_alive_period = seconds(5);      // a comment in a silent stream
  Nanos compile_time_max = seconds(5);       // of the form of an answer; beyond it: 400
  Nanos deep_health_time_max = seconds(10);  // of /health?deep=1; beyond it: 503
  ApiLimits api;
};

// A second port, for the operator. Its endpoints are not on the first port.
struct AdminOptions {
  std::string host = "127.0.0.1";     // without keys it must be an address of this machine only
  std::uint16_t port = 0;             // 0: any free one; see admin_port()
  std::vector<std::string> keys;      // none: every client may use it
  std::int64_t connections_max = 64;  // in addition to those of the first port
};

struct ServerOptions {
  std::string host = "127.0.0.1";      // an address, or "localhost"
  std::uint16_t port = 8000;           // 0: any; port() says which
  std::vector<std::string> api_keys;   // none: every client may ask
  std::string version = "unknown";     // the answer of /version
  int threads = 2;         // I/O threads; as many others prepare requests, half as many large ones
  std::uint64_t seed = 0;  // for the sampling of requests without a seed
  std::uint64_t id_seed = 0;           // for ids: unlike that of every other start, or they repeat
  std::optional<AdminOptions> admin;   // nullopt: there is no admin port
  std::optional<TraceOptions> traces;  // nullopt: no traces are sent
  MetricsOptions metrics;
  ResponseStoreOptions responses;  // answers that clients can come back to
  ServerLimits limits;
};

class Server {
 public:
  // `clock` measures latencies and time limits; it outlives the server.
  Server(ServerOptions options, const Clock& clock);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where the fleet puts its outputs; valid as long as the server. Never blocks.
  engine::OutputSink& sink();

  // Listens and answers. `fleet` must live until stop() returns. Errors: kInvalidArgument for the
  // host, kIo when the port cannot be had. Once only.
  Status start(fleet::Fleet& fleet);
  // The port listened on; 0 before start().
  std::uint16_t port() const;
  std::uint16_t admin_port() const;  // likewise; 0 where there is none

  // New requests get 503, /health too; waits for those running. After `grace` (real time) the rest
  // are ended with an error. True: all ended by themselves. Any thread; the server goes on
  // answering 503 until stop().
  bool drain(Nanos grace);
  // Closes everything and joins the threads; requests still running are cancelled. Bounded time, in
  // which the traces of what has ended are sent.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace causeway::server
