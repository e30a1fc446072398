// From what the user asked for (a trace or synthetic lengths, a rate, models) to the requests of a
// load run. Pure but for reading the trace file; the same seed gives the same workload.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "client/load_generator.h"

namespace causeway::bench {

struct WorkloadOptions {
  std::vector<std::string> models;  // requests are spread over these, uniformly at random
  std::string trace;                // file in a format of request/trace.h; empty: synthetic
  std::int64_t requests = 100;      // at most
  double requests_per_second = 0;   // Poisson; 0: the trace's arrivals, or all at once without any
  double time_scale = 1;            // multiplies the trace's arrival times
  std::int64_t input_tokens = 64;   // of synthetic prompts, or where the trace has no lengths
  std::int64_t output_tokens = 32;
  double length_spread = 0.5;         // synthetic lengths are uniform within ± this share
  std::int64_t input_tokens_max = 0;  // longer prompts of a trace are cut; 0: never
  std::int64_t output_tokens_max = 0;
  std::int64_t vocab = 256;  // prompt token ids are drawn below this (and a trace's taken modulo)
  std::uint64_t seed = 1;
};

Result<std::vector<LoadRequest>> make_workload(const WorkloadOptions& options);

}  // namespace causeway::bench
