// Drives a server with a workload: each request is sent at its arrival time, whether or not earlier
// ones have been answered (open loop), with an optional cap on how many are outstanding.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/sse_client.h"

namespace causeway::bench {

struct LoadRequest {
  Nanos arrival;  // since the start of the run
  std::string model;
  std::vector<TokenId> prompt;  // token ids: exact lengths on any server
  std::int64_t output_tokens = 16;
};

struct LoadOptions {
  Endpoint endpoint;
  std::int64_t outstanding_max = 0;  // 0: no cap
  Nanos timeout = seconds(600);      // without a sign of life, a request
  Nanos request_max = {};            // from when it is sent to its end; zero: no limit
  bool ignore_eos = true;
  double temperature = 0;
  std::function<void(const struct LoadProgress&)> progress;  // about five times a second
};

struct LoadProgress {
  Nanos elapsed;
  std::int64_t total = 0;
  std::int64_t sent = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t output_tokens = 0;
};

struct LoadRecord {
  std::string model;
  Nanos scheduled;  // arrival by the clock: latencies count from here, so queueing at the cap shows
  StreamOutcome outcome;
};

// Runs to the end of the last request. One thread. Records are in the order of `requests`.
std::vector<LoadRecord> run_load(const std::vector<LoadRequest>& requests,
                                 const LoadOptions& options, const Clock& clock);

}  // namespace causeway::bench
