// Latency targets under more load than HBM has room for: one list of arrivals at each rate, served
// by one policy after the other, each by a slice of its own in this process, on random weights.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/slice_parts.h"
#include "bench/slo_prediction.h"
#include "bench/slo_report.h"
#include "model/config.h"
#include "schedule/policy.h"

namespace causeway::bench {

struct SloPolicy {
  schedule::PolicyKind policy = schedule::PolicyKind::kFcfs;
  schedule::PreemptionKind preemption = schedule::PreemptionKind::kRecompute;

  std::string name() const;
};
// "rotary", or "rotary:rotate": what becomes of the KV of those that must go. Unless said, fcfs and
// priority recompute it, as servers without rotation do, and the others rotate it.
Result<SloPolicy> parse_slo_policy(const std::string& text);

struct SloBenchSettings {
  model::ModelConfig config;
  SliceSettings slice;  // its kv and kv_host are what requests share
  std::vector<SloPolicy> policies;
  std::vector<double> rates;  // requests a second
  double duration = 40;       // seconds of arrivals
  double burstiness = 0.5;    // request::gamma_arrivals()
  // Lengths, of a trace or drawn around means (bench::WorkloadOptions).
  std::string trace;
  std::int64_t input_tokens = 256;
  std::int64_t output_tokens = 128;
  request::Slo slo;
  // Of the machine: each row then has what the simulator expects of it.
  std::optional<simulate::HardwareProfile> profile;
  double alpha = schedule::kAlphaDefault;
  std::uint64_t seed = 1;
  std::function<void(const std::string& what)> progress;
};

// kInvalidArgument: nothing to measure, or a policy that rotates without kv_host; errors of slices.
Result<std::vector<SloRow>> bench_slo(const SloBenchSettings& settings, const Clock& clock);

}  // namespace causeway::bench
