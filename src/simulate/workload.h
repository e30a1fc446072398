// The workload of a simulated slice: which requests come when, with how much. Generated, or from a
// trace.
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
  std::vector<TokenId> prompt_ids;      // when the trace has them; otherwise made up from block_ids
  std::vector<std::int64_t> block_ids;  // equal ids: equal pieces of 512 tokens
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

// 1: a Poisson process; smaller: in bursts. kInvalidArgument names the range.
Status check_burstiness(double burstiness);

Workload poisson_workload(const PoissonOptions& options);

// Requests of one model that come at once, all alike.
struct FixedRequests {
  std::int64_t count = 0;
  Tokens prompt{512};
  Tokens output{128};
};

// By model.
Workload fixed_workload(const std::vector<FixedRequests>& models, request::Slo slo = {});

struct TraceOptions {
  std::size_t models = 1;    // the trace's models are dealt out to these in turn
  double speed = 1;          // > 1: arrivals come faster
  double per_second = 1;     // for traces without arrivals
  double burstiness = 1;     // likewise
  bool own_arrivals = true;  // false: as if it had none
  std::int64_t requests =
      0;                    // the trace's entries over and over; 0: each once. Needs made arrivals
  Tokens prompt_mean{512};  // for traces without lengths: exponential
  Tokens output_mean{128};
  request::Slo slo;
  std::uint64_t seed = 1;
};

// kInvalidArgument: speed, rate or burstiness out of range, or more requests than a trace that
// keeps its own arrivals has.
Result<Workload> trace_workload(const request::Trace& trace, const TraceOptions& options);

// The tokens of an arrival's prompt; the same for the same arrival and index.
std::vector<TokenId> prompt_tokens(const Arrival& arrival, std::int64_t index, std::int64_t vocab);

// The arrival as a request of that id, for the model of its index.
request::Request request_of(const Arrival& arrival, std::int64_t index, std::int64_t vocab);
// The same with a prompt of zeros: where requests share no KV, nothing depends on its tokens.
request::Request blank_request_of(const Arrival& arrival, std::int64_t index);

}  // namespace causeway::simulate
