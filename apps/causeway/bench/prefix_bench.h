// How soon a prompt is answered whose beginning was computed before: computed again, found in HBM,
// or found in host memory alone and brought back. A slice in this process, on random weights.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/slice_parts.h"
#include "model/config.h"

namespace causeway::bench {

struct PrefixBenchSettings {
  model::ModelConfig config;
  SliceSettings slice;           // kv holds one prompt; kv_host must hold two
  std::int64_t prefix = 32'000;  // tokens that prompts have in common
  std::int64_t rest = 256;       // and those of their own
  int runs = 5;
  std::function<void(const std::string& what)> progress;
};

struct PrefixReport {
  Bytes bytes;             // of KV that a request brings back
  double link = 0;         // bytes per second from host memory, plain copies
  Samples computed;        // ms to the first token, likewise below
  Samples in_hbm;          // found where it is read: what the rest costs
  Samples in_host;         // brought back
  std::int64_t found = 0;  // of in_host, tokens that host memory alone had, in the mean
};

// kInvalidArgument: no host memory for KV, or too little; errors of slices.
Result<PrefixReport> bench_prefix(const PrefixBenchSettings& settings, const Clock& clock);

// What comes back from host memory may take what its bytes and the rest's prefill need, a tenth
// more of the former, and 10 ms.
std::vector<Figure> prefix_figures(const PrefixReport& report);

}  // namespace causeway::bench
