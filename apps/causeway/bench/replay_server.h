// A replay against a running server: its catalogue, each request at its time, what it counted.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/replay_list.h"
#include "bench/replay_report.h"
#include "client/served_models.h"

namespace causeway::bench {

struct ReplayTarget {
  Endpoint endpoint;                 // with the prefix of the API
  std::int64_t vocab = 0;            // as replay_requests() takes it
  Nanos request_max = seconds(120);  // a request that takes longer is given up
  Nanos ready_max =
      {};  // how long to wait until the server says that all models are ready; zero: not
  std::function<void(const LoadProgress&)> progress;
};

inline constexpr std::int64_t kPromptVocab = 8192;

// The requests of a list for these models, whose targets are told by headers. Prompts' token ids
// are below `vocab`; 0: below kPromptVocab and what the smallest of the models has.
// kInvalidArgument: a model has fewer tokens, a request is longer than its model takes, or there
// are more prompts than memory is sensibly used for.
Result<std::vector<LoadRequest>> replay_requests(const simulate::Workload& list,
                                                 const std::vector<ServedModel>& models,
                                                 std::int64_t vocab);

// Blocks until the last request has ended or is given up. kUnavailable: the server does not answer;
// kDeadlineExceeded: its models do not become ready. Requests that fail are in the report.
Result<ReplayReport> replay_on_server(const ReplayTarget& target, const ReplayOptions& options,
                                      const Clock& clock);

}  // namespace causeway::bench
