// The workload of a simulated slice: which requests come when, and how long they and their answers
// are. Generated, or from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "request/request.h"
#include "request/trace.h"

namespace causeway::simulate {

struct Arrival {
  Nanos at;
  std::size_t model = 0;  // index into the simulation's models
  Tokens prompt{1};
  Tokens output{1};
  request::Slo slo;
  std::int32_t priority = 0;
  std::vector<TokenId> prompt_ids;      // when the trace has them; otherwise made from block_ids
  std::vector<std::int64_t> block_ids;  // equal ids stand for equal pieces of 512 tokens
};

using Workload = std::vector<Arrival>;  // by time

struct PoissonOptions {
  std::int64_t requests = 1000;
  double per_second = 1;    // 0: all at once
  double burstiness = 1;    // shape of the gaps' Gamma distribution, as check_burstiness() allows
  std::size_t models = 1;   // chosen uniformly
  Tokens prompt_mean{512};  // exponential, at least 1
  Tokens output_mean{128};
  request::Slo slo;
  std::uint64_t seed = 1;
};

// Checks a burstiness: 1 is a Poisson process, smaller values come in bursts. kInvalidArgument
// names the range.
Status check_burstiness(double burstiness);

Workload poisson_workload(const PoissonOptions& options);

// Requests of one model that come at the same time and are all alike.
struct FixedRequests {
  std::int64_t count = 0;
  Tokens prompt{512};
  Tokens output{128};
};

// `models`: the requests of each model, by index.
Workload fixed_workload(const std::vector<FixedRequests>& models, request::Slo slo = {});

struct TraceOptions {
  std::size_t models = 1;    // the trace's models are assigned to these round robin
  double speed = 1;          // > 1: arrivals come faster
  double per_second = 1;     // for traces without arrivals
  double burstiness = 1;     // the same as in PoissonOptions, for traces without arrivals
  bool own_arrivals = true;  // false: the trace's arrivals are ignored
  // The trace's entries are repeated until there are so many; 0: each is used once. Needs generated
  // arrivals.
  std::int64_t requests = 0;
  Tokens prompt_mean{512};  // for traces without lengths: exponential
  Tokens output_mean{128};
  request::Slo slo;
  std::uint64_t seed = 1;
};

// kInvalidArgument: speed, rate or burstiness out of range, or more requests than a trace that
// keeps its own arrivals has.
Result<Workload> trace_workload(const request::Trace& trace, const TraceOptions& options);

// The tokens of an arrival's prompt; always the same for the same arrival and index.
std::vector<TokenId> prompt_tokens(const Arrival& arrival, std::int64_t index, std::int64_t vocab);

// The arrival as a request with the id `index`, for its model.
request::Request request_of(const Arrival& arrival, std::int64_t index, std::int64_t vocab);
// The same with a prompt of zeros, for runs in which no requests share KV and nothing depends on
// the tokens.
request::Request blank_request_of(const Arrival& arrival, std::int64_t index);

}  // namespace causeway::simulate
