// An OpenTelemetry collector that behaves as a test says: an HTTP server of one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/tracing/http_endpoint.h"

namespace causeway::server::testing {

class Collector {
 public:
  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  HttpEndpoint endpoint() const { return {"127.0.0.1", port_, "/v1/traces"}; }
  // What it answers; "": nothing, it holds the connection.
  void answer(std::string bytes);
  void answer_status(const std::string& status, const std::string& body = "{}");

  // Waits (20 s at most) for as many requests; false: they have not come.
  bool wait_for(std::size_t count);
  std::vector<std::string> bodies();

 private:
  void run();
  void serve(int client);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string answer_;
  std::vector<std::string> bodies_;
  std::thread thread_;
};

}  // namespace causeway::server::testing
